/* say.c: see say.h. */
#include <client/say.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <client/show.h>

static const char *program = "halo";

void halo_client_set_name(const char *name)
{
    program = name;
}

void halo_client_say(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    fprintf(stderr, "%s: ", program);
    halo_client_show_line(stderr, n < 0 ? "out of memory" : text, n < 0 ? strlen("out of memory") : (size_t)n);
    fputc('\n', stderr);
    free(n < 0 ? NULL : text);
}

int halo_client_output_status(int error, int status, int failed)
{
    if (error == EPIPE)
        return HALO_CLIENT_NO_READER;
    if (error)
        halo_client_say("cannot write the output: %s", strerror(error));
    return error && status == 0 ? failed : status;
}
