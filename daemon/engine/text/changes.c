/* changes.c: what of a request is done differently, for `started.changes` and its like. Text workers.
 *
 * The list grows by copying: there are few of them. Fails with OUT_OF_MEMORY in job->fault.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "port/job_priv.h"

int halo_text_add_change(struct halo_job *job, const char *format, ...)
{
    char text[HALO_REMARK_BYTES];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    struct halo_str *changes = halo_arena_alloc(&job->arena, job->n_changes + 1, sizeof(*changes));
    char *copy = halo_arena_strndup(&job->arena, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
    if (!changes || !copy)
        return halo_fault_set(&job->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to prepare the prompt");
    if (job->n_changes > 0)
        memcpy(changes, job->changes, job->n_changes * sizeof(*changes));
    changes[job->n_changes++] = halo_str_of(copy);
    job->changes = changes;
    return 0;
}
