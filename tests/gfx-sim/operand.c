/* operand.c: operands and modifiers from llvm-objdump's text. */
#include <stdio.h>
#include <stdlib.h>

#include "isa_priv.h"
#include "numbers.h"

#define INV_2PI 0x3e22f983 /* printed with fewer digits than it has */

static bool read_special(const char *text, struct operand *o)
{
    static const struct {
        const char *name;
        uint16_t reg;
    } special[] = {{"vcc_lo", VCC}, {"exec_lo", EXEC}, {"m0", M0}, {"null", NUL}};
    for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
        if (strcmp(text, special[i].name) == 0) {
            o->kind = O_S;
            o->reg = special[i].reg;
            return true;
        }
    return false;
}

/* v5, s7, v[2:3], s[4:7]. */
static bool read_register(const char *text, struct operand *o)
{
    unsigned first, last;
    int end = 0;
    if (text[0] != 'v' && text[0] != 's')
        return false;
    if (sscanf(text + 1, "[%u:%u]%n", &first, &last, &end) == 2 && end > 0 && text[1 + end] == '\0') {
        o->n = (uint8_t)(last - first + 1);
    } else {
        end = 0;
        if (sscanf(text + 1, "%u%n", &first, &end) != 1 || text[1 + end] != '\0')
            return false;
    }
    o->kind = text[0] == 'v' ? O_V : O_S;
    o->reg = (uint16_t)first;
    return true;
}

static bool read_number(const char *text, struct operand *o)
{
    char *rest;
    o->kind = O_IMM;
    o->n = 0;
    if (strchr(text, '.')) {
        float f = strtof(text, &rest);
        o->imm = strncmp(text, "0.1591549", 9) == 0 ? INV_2PI : u_of(f);
        o->imm16 = float_half(f);
        o->is_float = true;
    } else {
        o->imm = (uint32_t)strtoll(text, &rest, 0);
        o->imm16 = o->imm & 0xffff;
    }
    return *rest == '\0';
}

static bool read_operand(const char *text, struct operand *o)
{
    char inside[32];
    size_t len = strlen(text);
    *o = (struct operand){.n = 1};
    if (text[0] == '-' && (text[1] == 'v' || text[1] == 's' || text[1] == '|')) {
        o->neg = true;
        text++;
        len--;
    }
    if (text[0] == '|' && len > 2 && len < sizeof(inside) && text[len - 1] == '|') {
        o->abs = true;
        snprintf(inside, sizeof(inside), "%.*s", (int)len - 2, text + 1);
        text = inside;
    }
    if (strcmp(text, "off") == 0) {
        o->kind = O_OFF;
        o->n = 0;
        return true;
    }
    return read_special(text, o) || read_register(text, o) || read_number(text, o);
}

/* "0,1,0]" */
static void read_bits(const char *text, uint8_t to[4])
{
    int n = 0;
    for (; *text != '\0' && *text != ']' && n < 4; text++)
        if (*text == '0' || *text == '1')
            to[n++] = *text == '1';
}

static bool read_offset(struct ins *i, const char *text)
{
    return sscanf(text, "offset:%i", &i->offset) == 1 || sscanf(text, "offset0:%i", &i->offset0) == 1 ||
           sscanf(text, "offset1:%i", &i->offset1) == 1;
}

static bool read_list(struct ins *i, const char *text)
{
    const struct {
        const char *name;
        uint8_t *to;
    } lists[] = {
        {"op_sel:[", i->op_sel}, {"op_sel_hi:[", i->op_sel_hi}, {"neg_lo:[", i->neg_lo}, {"neg_hi:[", i->neg_hi}};
    for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++)
        if (strncmp(text, lists[k].name, strlen(lists[k].name)) == 0) {
            read_bits(text + strlen(lists[k].name), lists[k].to);
            return true;
        }
    return false;
}

static bool read_dpp(struct ins *i, const char *text)
{
    unsigned xmask;
    if (sscanf(text, "row_xmask:%u", &xmask) == 1) {
        i->dpp = true;
        i->xmask = (uint8_t)xmask;
    } else if (strcmp(text, "bound_ctrl:1") == 0) {
        i->bound_ctrl = true;
    } else {
        return strcmp(text, "row_mask:0xf") == 0 || strcmp(text, "bank_mask:0xf") == 0;
    }
    return true;
}

static bool read_modifier(struct ins *i, const char *text)
{
    if (read_offset(i, text) || read_list(i, text) || read_dpp(i, text))
        return true;
    if (strcmp(text, "clamp") == 0)
        i->clamp = true;
    else if (strcmp(text, "glc") == 0)
        i->glc = true;
    else
        return strcmp(text, "slc") == 0 || strcmp(text, "dlc") == 0; /* caches here keep everything anyway */
    return true;
}

/* The end of the word: a comma or space outside of brackets. */
static char *end_of(char *word)
{
    int depth = 0;
    for (; *word != '\0' && !((*word == ',' || *word == ' ') && depth == 0); word++)
        depth += *word == '[' ? 1 : *word == ']' ? -1 : 0;
    return word;
}

bool isa_read_operands(struct ins *i, char *args)
{
    while (true) {
        args += strspn(args, " ,");
        if (*args == '\0')
            return true;
        char *end = end_of(args), mark = *end;
        *end = '\0';
        if (!read_modifier(i, args)) {
            if (i->n == MOST_OPERANDS || !read_operand(args, &i->o[i->n]))
                return false;
            i->n++;
        }
        if (mark == '\0')
            return true;
        args = end + 1;
    }
}
