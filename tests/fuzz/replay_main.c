/* replay_main.c: runs a fuzz target over every file of its corpus, so that what a hunt once found stays found.
 *
 * Arguments: files and folders (not searched deeper). Each input lies alone in a block of exactly its size, so that
 * AddressSanitizer sees a read past its end. Prints how many inputs ran and fails when there were none.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    int r = -1;
    if (file && data && fread(data, 1, size, file) == size)
        r = LLVMFuzzerTestOneInput(data, size);
    if (r != 0)
        fprintf(stderr, "replay: %s: %s\n", path, file ? "not replayed" : strerror(errno));
    if (file)
        fclose(file);
    free(data);
    return r == 0 ? 1 : -1;
}

/* The number of inputs replayed, or -1. */
static int replay_path(const char *path, int deep)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        return -1;
    }
    if (S_ISREG(st.st_mode))
        return replay_file(path, (size_t)st.st_size);
    if (!S_ISDIR(st.st_mode) || deep)
        return 0;
    DIR *dir = opendir(path);
    if (!dir)
        return -1;
    int total = 0;
    for (struct dirent *entry; total >= 0 && (entry = readdir(dir));) {
        char inside[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        int n = replay_path(inside, 1);
        total = n < 0 ? -1 : total + n;
    }
    closedir(dir);
    return total;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int n = replay_path(argv[i], 0);
        if (n < 0)
            return 1;
        total += n;
    }
    printf("replay: %d inputs\n", total);
    return total > 0 ? 0 : 1;
}
