/* model_stem.c: from a path to the name of a model. */
#include <base/model_stem.h>

#include <stdbool.h>
#include <string.h>

/* `shape`: the end that is looked for, where a 'd' stands for any digit. Returns the length without it, or `n` if
 * nothing would be left in front of it. */
static size_t without_end(const char *name, size_t n, const char *shape)
{
    size_t n_shape = strlen(shape);
    if (n <= n_shape)
        return n;
    for (size_t i = 0; i < n_shape; i++) {
        char c = name[n - n_shape + i];
        if (shape[i] == 'd' ? c < '0' || c > '9' : c != shape[i])
            return n;
    }
    return n - n_shape;
}

size_t halo_model_stem(const char *path, size_t len, char ret_stem[static HALO_MODEL_STEM_BYTES])
{
    const char *slash = memrchr(path, '/', len), *name = slash ? slash + 1 : path;
    size_t n = len - (size_t)(name - path);
    n = without_end(name, n, ".gguf");
    n = without_end(name, n, "-ddddd-of-ddddd");
    if (n >= HALO_MODEL_STEM_BYTES) {
        n = HALO_MODEL_STEM_BYTES - 1;
        while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80)
            n--;
    }
    memcpy(ret_stem, name, n);
    ret_stem[n] = '\0';
    return n;
}
