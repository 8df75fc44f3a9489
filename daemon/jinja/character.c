/* character.c: what a character is, as Python's methods of str tell: letter, digit, case, printable, part of a name.
 *
 * Constant; any thread. From general categories (base/unicode.h) and the properties below, which are those of
 * PropList.txt (Other_Lowercase, Other_Uppercase, Other_ID_Start, Other_ID_Continue), of Numeric_Type, and the
 * characters that NFKC keeps out of identifiers. Unicode 15.
 */
#include <base/unicode.h>

#include "jinja_priv.h"

struct range {
    uint32_t first, last;
};

static const struct range other_lower[] = {
    {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},     {0x2E0, 0x2E4},
    {0x345, 0x345},     {0x37A, 0x37A},     {0x10FC, 0x10FC},   {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},
    {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},   {0x2090, 0x209C},   {0x2170, 0x217F},
    {0x24D0, 0x24E9},   {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F2, 0xA7F4},
    {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},   {0xAB69, 0xAB69},   {0x10780, 0x10780}, {0x10783, 0x10785},
    {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x1E030, 0x1E06D},
};
static const struct range other_upper[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189},
};
static const struct range digits[] = {
    /* Numeric_Type Digit, beside the decimal ones */
    {0xB2, 0xB3},     {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},   {0x2070, 0x2070},
    {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247C},   {0x2488, 0x2490},
    {0x24EA, 0x24EA}, {0x24F5, 0x24FD},   {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},
    {0x278A, 0x2792}, {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A},
};
static const struct range numeric_ideographs[] = {
    {0x3405, 0x3405},   {0x3483, 0x3483},   {0x382A, 0x382A},   {0x3B4D, 0x3B4D},   {0x4E00, 0x4E00},
    {0x4E03, 0x4E03},   {0x4E07, 0x4E07},   {0x4E09, 0x4E09},   {0x4E5D, 0x4E5D},   {0x4E8C, 0x4E8C},
    {0x4E94, 0x4E94},   {0x4E96, 0x4E96},   {0x4EBF, 0x4EC0},   {0x4EDF, 0x4EDF},   {0x4EE8, 0x4EE8},
    {0x4F0D, 0x4F0D},   {0x4F70, 0x4F70},   {0x5104, 0x5104},   {0x5146, 0x5146},   {0x5169, 0x5169},
    {0x516B, 0x516B},   {0x516D, 0x516D},   {0x5341, 0x5341},   {0x5343, 0x5345},   {0x534C, 0x534C},
    {0x53C1, 0x53C4},   {0x56DB, 0x56DB},   {0x58F1, 0x58F1},   {0x58F9, 0x58F9},   {0x5E7A, 0x5E7A},
    {0x5EFE, 0x5EFF},   {0x5F0C, 0x5F0E},   {0x5F10, 0x5F10},   {0x62FE, 0x62FE},   {0x634C, 0x634C},
    {0x67D2, 0x67D2},   {0x6F06, 0x6F06},   {0x7396, 0x7396},   {0x767E, 0x767E},   {0x8086, 0x8086},
    {0x842C, 0x842C},   {0x8CAE, 0x8CAE},   {0x8CB3, 0x8CB3},   {0x8D30, 0x8D30},   {0x9621, 0x9621},
    {0x9646, 0x9646},   {0x964C, 0x964C},   {0x9678, 0x9678},   {0x96F6, 0x96F6},   {0xF96B, 0xF96B},
    {0xF973, 0xF973},   {0xF978, 0xF978},   {0xF9B2, 0xF9B2},   {0xF9D1, 0xF9D1},   {0xF9D3, 0xF9D3},
    {0xF9FD, 0xF9FD},   {0x20001, 0x20001}, {0x20064, 0x20064}, {0x200E2, 0x200E2}, {0x20121, 0x20121},
    {0x2092A, 0x2092A}, {0x20983, 0x20983}, {0x2098C, 0x2098C}, {0x2099C, 0x2099C}, {0x20AEA, 0x20AEA},
    {0x20AFD, 0x20AFD}, {0x20B19, 0x20B19}, {0x22390, 0x22390}, {0x22998, 0x22998}, {0x23B1B, 0x23B1B},
    {0x2626D, 0x2626D}, {0x2F890, 0x2F890},
};
static const struct range other_start[] = {{0x1885, 0x1886}, {0x2118, 0x2118}, {0x212E, 0x212E}};
static const struct range other_continue[] = {
    {0xB7, 0xB7}, {0x387, 0x387}, {0xE33, 0xE33}, {0xEB3, 0xEB3}, {0x1369, 0x1371}, {0x19DA, 0x19DA}, {0xFF9E, 0xFF9F},
};
static const struct range never_start[] = {
    /* those of other_continue may follow */
    {0x37A, 0x37A},   {0xE33, 0xE33},   {0xEB3, 0xEB3},   {0x2E2F, 0x2E2F}, {0xFC5E, 0xFC63},
    {0xFDFA, 0xFDFB}, {0xFE70, 0xFE70}, {0xFE72, 0xFE72}, {0xFE74, 0xFE74}, {0xFE76, 0xFE76},
    {0xFE78, 0xFE78}, {0xFE7A, 0xFE7A}, {0xFE7C, 0xFE7C}, {0xFE7E, 0xFE7E}, {0xFF9E, 0xFF9F},
};

#define IN(table, c) in_ranges(table, sizeof(table) / sizeof((table)[0]), c)
static bool in_ranges(const struct range *ranges, size_t n, uint32_t c)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && ranges[low].first <= c;
}

#define BIT(category) (1u << HALO_UNICODE_##category)
#define LETTER (BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO))
#define NUMBER (BIT(ND) | BIT(NL) | BIT(NO))
#define INVISIBLE                                                                                                      \
    (BIT(CC) | BIT(CF) | BIT(CS) | BIT(CO) | BIT(CN) | BIT(ZS) | BIT(ZL) | BIT(ZP)) /* but for the space itself */

bool halo_jinja_is_alpha(uint32_t c)
{
    return c < 0x80 ? (c | 32) - 'a' < 26u : halo_unicode_is(c, LETTER);
}

bool halo_jinja_is_decimal(uint32_t c)
{
    return c < 0x80 ? c - '0' < 10u : halo_unicode_is(c, BIT(ND));
}

bool halo_jinja_is_digit(uint32_t c)
{
    return halo_jinja_is_decimal(c) || IN(digits, c);
}

bool halo_jinja_is_numeric(uint32_t c)
{
    return c < 0x80 ? c - '0' < 10u : halo_unicode_is(c, NUMBER) || IN(numeric_ideographs, c);
}

bool halo_jinja_is_alnum(uint32_t c)
{
    return halo_jinja_is_alpha(c) || halo_jinja_is_numeric(c);
}

bool halo_jinja_is_lower(uint32_t c)
{
    return c < 0x80 ? c - 'a' < 26u : halo_unicode_is(c, BIT(LL)) || IN(other_lower, c);
}

bool halo_jinja_is_upper(uint32_t c)
{
    return c < 0x80 ? c - 'A' < 26u : halo_unicode_is(c, BIT(LU)) || IN(other_upper, c);
}

bool halo_jinja_is_title(uint32_t c)
{
    return c >= 0x80 && halo_unicode_is(c, BIT(LT));
}

bool halo_jinja_is_printable(uint32_t c)
{
    return c < 0x7F ? c >= ' ' : !halo_unicode_is(c, INVISIBLE);
}

bool halo_jinja_begins_name(uint32_t c)
{
    if (c < 0x80)
        return (c | 32) - 'a' < 26u || c == '_';
    return (halo_unicode_is(c, LETTER | BIT(NL)) || IN(other_start, c)) && !IN(never_start, c);
}

bool halo_jinja_continues_name(uint32_t c)
{
    return halo_jinja_begins_name(c) || IN(other_continue, c) ||
           halo_unicode_is(c, BIT(MN) | BIT(MC) | BIT(ND) | BIT(PC));
}
