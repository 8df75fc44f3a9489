/* vocab_files.c: finds and reads the files that tokenizer tests run on. */
#include "vocab_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

static const char *source_root(void)
{
    const char *root = getenv("HALO_SOURCE_ROOT");
    return root ? root : ".";
}

const char *shared_folder(void)
{
    static char path[4096];
    struct stat st;
    const char *shared = getenv("HALO_SHARED");
    if (shared)
        snprintf(path, sizeof path, "%s", shared);
    else
        snprintf(path, sizeof path, "%s/../shared", source_root());
    return stat(path, &st) == 0 ? path : NULL;
}

const char *fable_path(void)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/tests/models/fable-Q4_K_M.gguf", source_root());
    return path;
}

bool file_exists(const char *folder, const char *name)
{
    char path[4096];
    struct stat st;
    snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
    return stat(path, &st) == 0;
}

struct file_bytes file_read(const char *folder, const char *name)
{
    char command[8300], path[4096];
    size_t n_name = strlen(name), capacity = 1 << 16;
    bool packed = n_name > 3 && strcmp(name + n_name - 3, ".gz") == 0;
    snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
    snprintf(command, sizeof command, "gzip -dc '%s'", path);
    FILE *stream = packed ? popen(command, "r") : fopen(path, "r");
    if (!stream)
        fail_msg("cannot open %s", path);
    struct file_bytes file = {malloc(capacity), 0};
    for (size_t n; (n = fread(file.bytes + file.n, 1, capacity - file.n - 1, stream)) > 0;) {
        file.n += n;
        if (capacity - file.n < 4096)
            file.bytes = realloc(file.bytes, capacity *= 2);
    }
    file.bytes[file.n] = 0;
    int status = packed ? pclose(stream) : fclose(stream);
    if (status != 0 || file.n == 0)
        fail_msg("cannot read %s (status %d, %zu bytes)", path, status, file.n);
    return file;
}

struct halo_tokenizer *tokenizer_open(const char *folder, const char *name)
{
    struct halo_fault fault = {0};
    struct halo_gguf *gguf = NULL;
    struct halo_tokenizer *tokenizer = NULL;
    struct file_bytes file = file_read(folder, name);
    if (halo_gguf_open_memory(&gguf, file.bytes, file.n, &fault) < 0)
        fail_msg("%s: %s", name, fault.text);
    if (halo_tokenizer_create(&tokenizer, gguf, &fault) < 0)
        fail_msg("%s: %s", name, fault.text);
    halo_gguf_close(gguf); /* the tokenizer must not need it any more */
    free(file.bytes);
    return tokenizer;
}
