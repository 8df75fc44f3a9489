/* replay_main.c: runs a fuzz target over every file of its corpus, so that what a hunt once found stays found.
 *
 *   replay_NOUN [--seeds N] PATH...
 *
 * Paths: files and folders (not searched deeper). --seeds N: then over N pseudo-random inputs too, always the same; a
 * target that fails names the seed. Each input lies alone in a block of exactly its size, so that AddressSanitizer sees
 * a read past its end. Prints how many inputs ran and fails when there were none.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t current_seed; /* 0: a file */

static void on_abort(int signal_number)
{
    char text[64];
    int n = snprintf(text, sizeof text, "replay: seed %llu\n", (unsigned long long)current_seed);
    if (current_seed && write(STDERR_FILENO, text, (size_t)n) < 0)
        _exit(1);
}

/* splitmix64. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Short inputs and long ones alike. */
static void replay_seed(uint64_t seed)
{
    uint64_t state = seed;
    size_t most = (size_t)8 << next(&state) % 9, size = (size_t)(next(&state) % most);
    uint8_t *data = malloc(size ? size : 1);
    if (!data)
        abort();
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(next(&state) >> 32);
    current_seed = seed;
    LLVMFuzzerTestOneInput(data, size);
    current_seed = 0;
    free(data);
}

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
    int total = 0, n_seeds = 0, first = 1;
    if (argc > 2 && strcmp(argv[1], "--seeds") == 0) {
        n_seeds = atoi(argv[2]);
        first = 3;
    }
    for (int i = first; i < argc; i++) {
        int n = replay_path(argv[i], 0);
        if (n < 0)
            return 1;
        total += n;
    }
    signal(SIGABRT, on_abort);
    for (int seed = 1; seed <= n_seeds; seed++)
        replay_seed((uint64_t)seed);
    total += n_seeds;
    printf("replay: %d inputs\n", total);
    return total > 0 ? 0 : 1;
}
