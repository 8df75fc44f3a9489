/* mounts.c: reads the kernel's list of mounts. */
#include "mounts.h"

#include <stdio.h>
#include <string.h>

/* "\040" is a space in the list of mounts. In place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' && at[3] >= '0' &&
            at[3] <= '7') {
            *to++ = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + at[3] - '0');
            at += 3;
        } else {
            *to++ = *at;
        }
    }
    *to = '\0';
}

static bool lies_below(const char *path, const char *point)
{
    size_t n = strlen(point);
    return strcmp(point, "/") == 0 || (strncmp(path, point, n) == 0 && (path[n] == '/' || path[n] == '\0'));
}

/* "36 35 98:0 /root /point options [tags] - type device options" */
bool halo_doctor_mount_of(char *text, const char *path, struct halo_doctor_mount *ret)
{
    size_t best = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char *point = NULL, *dash = strstr(line, " - ");
        for (int i = 0; i < 5 && line; i++)
            point = strsep(&line, " ");
        if (!point || !line || !dash || dash < line)
            continue;
        char *type = dash + 3, *after = type;
        strsep(&after, " ");
        char *device = after ? strsep(&after, " ") : NULL;
        unescape(point);
        if (!device || !lies_below(path, point) || strlen(point) < best)
            continue;
        unescape(device);
        best = strlen(point);
        snprintf(ret->type, sizeof ret->type, "%s", type);
        snprintf(ret->device, sizeof ret->device, "%s", device);
        snprintf(ret->options, sizeof ret->options, "%s,%s", strsep(&line, " "), after ? after : "");
    }
    return best > 0;
}
