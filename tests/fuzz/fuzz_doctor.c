/* fuzz_doctor.c: what halo-doctor takes out of texts that any machine may hold.
 *
 * Input: a line that is a key, a path or an option, then the text. Whatever is in it: values are pieces of it, counts
 * do not exceed its lines, and what is written into a finding can be printed.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "checks/log.h"
#include "checks/mounts.h"
#include "lines.h"
#include "report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_for(const char *key, const char *text)
{
    char value[32], option[16];
    uint64_t number;
    const char *end;
    const char *line = halo_doctor_line_of(text, key, value, sizeof value);
    assert(!line || (line == value && strlen(value) < sizeof value && !strchr(value, '\n') && strstr(text, key)));
    if (halo_doctor_number_of(text, key, &number))
        assert(line && value[0] >= '0' && value[0] <= '9');
    if (halo_doctor_number_parse(text, &number, &end))
        assert(end > text && end <= text + strlen(text));
    if (key[0] && halo_doctor_option_of(text, key, option, sizeof option))
        assert(strlen(option) < sizeof option && !strpbrk(option, " \t\n") && strstr(text, key));
}

static void look_in_log(const char *text, size_t n)
{
    struct halo_doctor_log_hit hits[HALO_DOCTOR_N_SIGNATURES];
    size_t n_lines = 1, n_hits = 0;
    for (size_t i = 0; i < n; i++)
        n_lines += text[i] == '\n';
    halo_doctor_log_scan(text, n, hits);
    for (size_t i = 0; i < HALO_DOCTOR_N_SIGNATURES; i++) {
        n_hits += hits[i].n;
        assert(memchr(hits[i].last, '\0', sizeof hits[i].last));
        assert(hits[i].n > 0 || !hits[i].last[0]);
    }
    assert(n_hits <= n_lines);
}

static void look_at_mounts(const char *path, char *text)
{
    struct halo_doctor_mount mount;
    if (halo_doctor_mount_of(text, path, &mount))
        assert(memchr(mount.type, '\0', sizeof mount.type) && memchr(mount.device, '\0', sizeof mount.device) &&
               memchr(mount.options, '\0', sizeof mount.options));
}

static void write_down(const char *text)
{
    struct halo_doctor_finding f;
    halo_doctor_finding_init(&f, text, text);
    halo_doctor_finding_read(&f, "%s", text);
    halo_doctor_finding_read(&f, "%s", text);
    halo_doctor_finding_say(&f, HALO_DOCTOR_WARN, "%s", text);
    for (const char *at = f.read; *at; at++)
        assert((unsigned char)*at >= 0x20 && *at != 0x7f);
    assert(strlen(f.id) < sizeof f.id && strlen(f.title) < sizeof f.title && strlen(f.advice) < sizeof f.advice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = memchr(data, '\n', size);
    size_t n_key = newline ? (size_t)(newline - data) : size, n = newline ? size - n_key - 1 : 0;
    char *key = calloc(n_key + 1, 1), *text = calloc(n + 1, 1);
    if (key && text) {
        if (n_key > 0)
            memcpy(key, data, n_key);
        if (n > 0)
            memcpy(text, newline + 1, n);
        look_for(key, text);
        look_in_log(text, n);
        write_down(text);
        look_at_mounts(key, text); /* takes it apart */
    }
    free(key);
    free(text);
    return 0;
}
