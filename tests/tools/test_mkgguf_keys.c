/* test_mkgguf_keys.c: a generated model says what the published files of its family say, so that other readers of the
 * format take it too: every key of the family's reference model, of the same type, and every tensor.
 *
 * Argument: the path of mkgguf. Needs the reference folder beside the tree; exits 77 without it. A new family is a row.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <store/gguf.h>

#define SKIP 77
#define MAX_KEYS 256
#define N_ARGS 12

static const struct {
    const char *preset, *reference;
    bool dense;
    const char *layers; /* NULL: two */
} rows[] = {
    {"llama-1b", "tiny-llama", true},
    {"qwen2-0.5b", "tiny-qwen2", true},
    {"qwen3-0.6b", "tiny-qwen3", true},
    {"qwen3-30b-a3b", "tiny-qwen3moe"},
    {"gpt-oss-20b", "tiny-gpt-oss"},
    {"glm-4.5-air", "tiny-glm4moe-air"},
    {"gemma4-26b-a4b", "tiny-gemma4-moe"},
    {"gemma4-31b", "tiny-gemma4", true},
    {"minimax-m2", "tiny-minimax-m2"},
    {"glm-4.7-flash", "tiny-glm4-flash"},
    {"nemotron-3-nano", "tiny-nemotron-h-moe", false, "6"},
    {"qwen3.6-27b", "tiny-qwen35", true, "4"},
    {"qwen3.6-35b-a3b", "tiny-qwen35moe", false, "4"},
    {"qwen3-coder-next-80b", "tiny-qwen3next", false, "4"},
    {"lfm2-8b-a1b", "tiny-lfm2moe", false, "4"},
    {"granite-4.0-h-small", "tiny-granitehybrid", false, "6"},
    {"falcon-h1-7b", "tiny-falcon-h1", true},
    {"deepseek-v4-flash", "tiny-deepseek4", false, "4"},
};

/* Layers that predict a further token: no reader needs them, and no preset has them. */
static bool is_left_out(const char *name)
{
    return strstr(name, "nextn") != NULL;
}

struct key {
    char name[128];
    uint32_t type, element_type; /* as the format counts them */
};

struct keys {
    struct key keys[MAX_KEYS];
    size_t n;
};

__attribute__((noreturn)) static void fail(const char *what, const char *why)
{
    printf("%s: %s\n", what, why);
    exit(1);
}

static void take(FILE *file, void *bytes, size_t n, const char *path)
{
    if (fread(bytes, 1, n, file) != n)
        fail(path, "ends within its keys");
}

static void skip(FILE *file, uint32_t type, const char *path)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    uint64_t n = 1;
    if (type == HALO_GGUF_STRING)
        take(file, &n, sizeof n, path);
    else if (type < sizeof sizes && sizes[type])
        n = sizes[type];
    else
        fail(path, "has a key of an unknown type");
    if (fseek(file, (long)n, SEEK_CUR) != 0)
        fail(path, "cannot be read");
}

/* All keys of a file, read as the format describes them. */
static void read_keys(const char *path, struct keys *ret)
{
    FILE *file = fopen(path, "rb");
    uint64_t head[3];
    if (!file)
        fail(path, "cannot be opened");
    take(file, head, sizeof head, path); /* magic and version, tensors, keys */
    ret->n = 0;
    for (uint64_t i = 0; i < head[2]; i++) {
        struct key *key = &ret->keys[ret->n++];
        uint64_t n, n_elements;
        take(file, &n, sizeof n, path);
        if (ret->n == MAX_KEYS || n >= sizeof key->name)
            fail(path, "has too many keys, or one of them is too long");
        take(file, key->name, n, path);
        key->name[n] = '\0';
        take(file, &key->type, sizeof key->type, path);
        key->element_type = 0;
        if (key->type != HALO_GGUF_ARRAY) {
            skip(file, key->type, path);
            continue;
        }
        take(file, &key->element_type, sizeof key->element_type, path);
        take(file, &n_elements, sizeof n_elements, path);
        for (uint64_t e = 0; e < n_elements; e++)
            skip(file, key->element_type, path);
    }
    fclose(file);
}

static const struct key *key_named(const struct keys *keys, const char *name)
{
    for (size_t i = 0; i < keys->n; i++)
        if (strcmp(keys->keys[i].name, name) == 0)
            return &keys->keys[i];
    return NULL;
}

static int compare_keys(const char *preset, const struct keys *reference, const struct keys *made)
{
    int n_wrong = 0;
    for (size_t i = 0; i < reference->n; i++) {
        const struct key *wanted = &reference->keys[i], *key = key_named(made, wanted->name);
        if (is_left_out(wanted->name) ||
            (key && key->type == wanted->type && key->element_type == wanted->element_type))
            continue;
        n_wrong++;
        printf("%s: %s is %s\n", preset, wanted->name, key ? "of another type" : "missing");
    }
    return n_wrong;
}

/* "blk.12.ffn_up.weight" without its layer. */
static void without_layer(const char *name, char ret[128])
{
    unsigned layer;
    int n = 0;
    if (sscanf(name, "blk.%u.%n", &layer, &n) == 1 && n > 0)
        snprintf(ret, 128, "blk.%s", name + n);
    else
        snprintf(ret, 128, "%s", name);
}

static bool has_tensor(const struct halo_gguf *gguf, const char *wanted, uint32_t n_dims)
{
    char name[128];
    for (uint64_t i = 0; i < halo_gguf_n_tensors(gguf); i++) {
        const struct halo_gguf_tensor *tensor = halo_gguf_tensor(gguf, i);
        without_layer(tensor->name, name);
        if (strcmp(name, wanted) == 0 && tensor->n_dims == n_dims)
            return true;
    }
    return false;
}

static int compare_tensors(const char *preset, const char *reference_path, const char *made_path)
{
    struct halo_gguf *reference, *made;
    struct halo_fault fault = {0};
    int n_wrong = 0;
    if (halo_gguf_open(&reference, reference_path, &fault) < 0 || halo_gguf_open(&made, made_path, &fault) < 0)
        fail(preset, fault.text);
    for (uint64_t i = 0; i < halo_gguf_n_tensors(reference); i++) {
        const struct halo_gguf_tensor *tensor = halo_gguf_tensor(reference, i);
        char name[128];
        without_layer(tensor->name, name);
        if (is_left_out(name) || has_tensor(made, name, tensor->n_dims))
            continue;
        n_wrong++;
        printf("%s: no tensor is called %s\n", preset, name);
    }
    halo_gguf_close(reference);
    halo_gguf_close(made);
    return n_wrong;
}

static void generate(const char *program, const char *preset, bool dense, const char *layers, const char *path)
{
    const char *const argv[N_ARGS] = {program,
                                      "-o",
                                      path,
                                      "--preset",
                                      preset,
                                      "--layers",
                                      layers ? layers : "2",
                                      "--vocab",
                                      "2000",
                                      dense ? NULL : "--experts",
                                      "8"};
    pid_t pid = fork();
    if (pid == 0) {
        dup2(open("/dev/null", O_WRONLY), 1);
        execv(program, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail(preset, "mkgguf failed");
}

int main(int argc, char **argv)
{
    static struct keys reference, made;
    const char *shared = getenv("HALO_SHARED"), *root = getenv("HALO_SOURCE_ROOT");
    char models[3000], path[4096], made_path[] = "/tmp/halo-mkgguf-keys-XXXXXX";
    int n_wrong = 0;
    snprintf(models, sizeof models, "%s%s/models", shared ? shared : root ? root : ".", shared ? "" : "/../shared");
    if (argc != 2)
        return 2;
    if (access(models, R_OK) < 0) {
        printf("skipped: %s is not there\n", models);
        return SKIP;
    }
    int fd = mkstemp(made_path);
    if (fd < 0)
        fail(made_path, "cannot be made");
    close(fd);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(path, sizeof path, "%s/%s.gguf", models, rows[i].reference);
        generate(argv[1], rows[i].preset, rows[i].dense, rows[i].layers, made_path);
        read_keys(path, &reference);
        read_keys(made_path, &made);
        n_wrong += compare_keys(rows[i].preset, &reference, &made) + compare_tensors(rows[i].preset, path, made_path);
        printf("%s: %zu keys beside %zu of %s\n", rows[i].preset, made.n, reference.n, rows[i].reference);
    }
    unlink(made_path);
    return n_wrong ? 1 : 0;
}
