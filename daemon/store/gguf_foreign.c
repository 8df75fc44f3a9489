/* gguf_foreign.c: what a file is that is named .gguf and is none. Constant. */
#include "gguf_priv.h"

static bool begins(const uint8_t *bytes, uint64_t n, const char *with, bool any_case)
{
    size_t n_with = strlen(with);
    return n >= n_with &&
           (any_case ? strncasecmp((const char *)bytes, with, n_with) : memcmp(bytes, with, n_with)) == 0;
}

static bool is_html(const uint8_t *bytes, uint64_t n)
{
    while (n > 0 && (*bytes == ' ' || (*bytes >= '\t' && *bytes <= '\r'))) {
        bytes++;
        n--;
    }
    return begins(bytes, n, "<!doctype html", true) || begins(bytes, n, "<html", true);
}

const char *gguf_foreign_kind(const uint8_t *bytes, uint64_t n)
{
    if (begins(bytes, n, "version https://git-lfs", false))
        return "is a Git LFS pointer, not the model itself: fetch it with `git lfs pull`";
    if (is_html(bytes, n))
        return "is an HTML page, not a model: the download brought a web page, probably an error or a login";
    if (begins(bytes, n, "PK\003\004", false))
        return "is a ZIP archive (a PyTorch checkpoint is one), not a GGUF file";
    if (begins(bytes, n, "ggml", false) || begins(bytes, n, "lmgg", false) || begins(bytes, n, "tjgg", false) ||
        begins(bytes, n, "fmgg", false))
        return "is a model in a format older than GGUF: convert it again from its source";
    if (n > 8 && begins(bytes + 8, n - 8, "{\"", false))
        return "is a safetensors file, not a GGUF file: convert it";
    return NULL;
}
