/* bind.c: the binder: a family's table of tensors against the directory of a file.
 *
 * Reports all that is wrong in one sentence, so that a broken conversion is understood at the first try. Any thread;
 * owns nothing, the result lies in the caller's arena.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bind_priv.h"

/* What is wrong so far. Entries that no longer fit are only counted. */
struct complaints {
    uint64_t n, n_told;
    size_t n_text;
    char text[160];
};

__attribute__((format(printf, 2, 3))) static void complain(struct complaints *complaints, const char *format, ...)
{
    char entry[128]; /* a longer one is cut, so that the first always fits */
    va_list args;

    complaints->n++;
    va_start(args, format);
    vsnprintf(entry, sizeof(entry), format, args);
    va_end(args);
    if (complaints->n_told + 1 < complaints->n || complaints->n_text + strlen(entry) + 3 > sizeof(complaints->text))
        return;
    complaints->n_text +=
        (size_t)snprintf(complaints->text + complaints->n_text, sizeof(complaints->text) - complaints->n_text, "%s%s",
                         complaints->n_told ? "; " : "", entry);
    complaints->n_told++;
}

/* "[256, 768]", with as many dimensions as the role has. */
static void shape_print(char *buffer, size_t n, const uint64_t *dims, uint32_t n_dims)
{
    int at = snprintf(buffer, n, "[%" PRIu64, dims[0]);

    for (uint32_t i = 1; i < n_dims && at > 0 && (size_t)at < n; i++)
        at += snprintf(buffer + at, n - (size_t)at, ", %" PRIu64, dims[i]);
    if (at > 0 && (size_t)at < n)
        snprintf(buffer + at, n - (size_t)at, "]");
}

static void tensor_check(const struct halo_gguf_tensor *tensor, const struct halo_tensor_spec *spec,
                         const struct halo_hparams *hparams, struct complaints *complaints)
{
    static const uint32_t role_dims[] = {[HALO_WEIGHT_VECTOR] = 1, [HALO_WEIGHT_MATRIX] = 2, [HALO_WEIGHT_EXPERTS] = 3};
    uint64_t wanted[HALO_GGUF_MAX_DIMS] = {1, 1, 1, 1};
    char is[96], should[96];
    struct halo_type_info type = halo_type_info(tensor->type);

    for (uint32_t i = 0; i < 3; i++)
        wanted[i] = halo_tensors_extent(spec->dims[i], hparams);
    if (memcmp(wanted, tensor->dims, sizeof(wanted)) != 0) {
        uint32_t n_should = role_dims[spec->role];
        uint32_t n_dims = tensor->n_dims > n_should ? tensor->n_dims : n_should;
        shape_print(is, sizeof(is), tensor->dims, n_dims);
        shape_print(should, sizeof(should), wanted, wanted[1] > 1 && n_should == 1 ? 2 : n_should);
        complain(complaints, "%s is %s, should be %s", tensor->name, is, should);
    } else if (spec->table != (tensor->type == HALO_TYPE_I32)) {
        complain(complaints, spec->table ? "%s is %s, should be I32" : "%s is %s, should hold numbers", tensor->name,
                 type.name);
    } else if (spec->role == HALO_WEIGHT_VECTOR && tensor->type != HALO_TYPE_F32) {
        complain(complaints, "%s is %s, should be F32", tensor->name, type.name);
    } else if (wanted[0] % type.block_weights) {
        complain(complaints, "%s: rows of %" PRIu64 " are no whole %s blocks of %" PRIu32, tensor->name, wanted[0],
                 type.name, type.block_weights);
    }
}

/* Whether a name is that of a tensor in one of the layers that have it. The cheap tests come first: a hostile file has
 * a million names. */
static bool name_matches(const char *name, const struct halo_tensor_spec *spec, const struct halo_hparams *hparams)
{
    enum halo_tensor_id id = spec->id;
    const char *pattern = halo_tensors_pattern(id), *digit = name + 4;
    char exact[HALO_GGUF_MAX_NAME + 1];
    uint32_t layer = 0, n_layers = hparams->n_layers;

    if (!halo_tensors_layered(id))
        return strcmp(name, pattern) == 0;
    if (strncmp(name, "blk.", 4) != 0)
        return false;
    for (; *digit >= '0' && *digit <= '9' && layer < n_layers; digit++)
        layer = layer * 10 + (uint32_t)(*digit - '0');
    if (layer >= n_layers || strcmp(digit, strstr(pattern, "%u") + 2) != 0)
        return false;
    halo_tensors_name(id, layer, exact); /* tells blk.0 from blk.00 */
    return strcmp(name, exact) == 0 &&
           (!spec->when || spec->when(hparams, layer) || (spec->unread && spec->unread(hparams, layer)));
}

static const struct halo_tensor_spec *spec_of(const struct halo_binding *binding, const char *name)
{
    for (int id = 0; id < HALO_TENSOR_COUNT; id++)
        if (binding->specs[id] && name_matches(name, binding->specs[id], binding->hparams))
            return binding->specs[id];
    return NULL;
}

/* The name with `to` at its end instead of `from`; false when it ends otherwise. */
static bool name_swap(const char *name, const char *from, const char *to, char ret[HALO_GGUF_MAX_NAME + 8])
{
    size_t n = strlen(name), n_from = strlen(from);
    if (n <= n_from || strcmp(name + n - n_from, from) != 0)
        return false;
    snprintf(ret, HALO_GGUF_MAX_NAME + 8, "%.*s%s", (int)(n - n_from), name, to);
    return true;
}

/* Whether a name is that of factors beside a matrix of the family: of its product, or of its input, which are for
 * quantizing activations and not used. */
static bool is_scale(const struct halo_binding *binding, const char *name)
{
    char weight[HALO_GGUF_MAX_NAME + 8];
    if (!name_swap(name, ".input_scale", ".weight", weight) && !name_swap(name, ".scale", ".weight", weight))
        return false;
    const struct halo_tensor_spec *spec = spec_of(binding, weight);
    return spec && spec->role != HALO_WEIGHT_VECTOR;
}

/* Whether a name is that of a tensor in one of the layers for multi-token prediction, which the plan leaves out. */
static bool in_nextn(const char *name, const struct halo_hparams *hparams)
{
    char *end;
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9')
        return false;
    unsigned long layer = strtoul(name + 4, &end, 10);
    return *end == '.' && layer >= hparams->n_layers && layer < hparams->n_layers + hparams->n_nextn;
}

/* Tensors that old converters wrote and that hold nothing a plan needs: tables of rotary angles that follow from the
 * keys. */
static bool carries_nothing(const char *name)
{
    size_t n = strlen(name);
    static const char suffix[] = ".attn_rot_embd.weight";
    return n > sizeof(suffix) && strcmp(name + n - (sizeof(suffix) - 1), suffix) == 0;
}

static int strangers_check(const struct halo_binding *binding, const struct halo_gguf *gguf,
                           const struct halo_arch *arch, struct halo_fault *fault)
{
    uint64_t n_tensors = halo_gguf_n_tensors(gguf), n_strange = 0;
    const char *first = NULL;

    for (uint64_t i = 0; i < n_tensors; i++) {
        const char *name = halo_gguf_tensor(gguf, i)->name;
        bool known = carries_nothing(name) || in_nextn(name, binding->hparams) || spec_of(binding, name) ||
                     is_scale(binding, name);
        if (!known && n_strange++ == 0)
            first = name;
    }
    if (n_strange == 0)
        return 0;
    return halo_fault_set(
        fault, HALO_FAULT_UNSUPPORTED, "%" PRIu64 " tensor%s of the file %s no part of a %s model (%s%s)", n_strange,
        n_strange == 1 ? "" : "s", n_strange == 1 ? "is" : "are", arch->name, n_strange == 1 ? "" : "first: ", first);
}

/* The fused tensor that holds this one, or NULL. Families list fused tensors before what lies in them. */
static const struct halo_gguf_tensor *whole_of(const struct halo_binding *binding, enum halo_tensor_id id,
                                               uint32_t layer)
{
    struct halo_tensor_part part;
    return halo_tensors_part(id, binding->hparams, &part) ? halo_binding_find(binding, part.whole, layer) : NULL;
}

/* Whether the tensor lies in a fused one that the family needs, whose absence is the one complaint. */
static bool is_part_of_needed(const struct halo_binding *binding, enum halo_tensor_id id)
{
    struct halo_tensor_part part;
    return halo_tensors_part(id, binding->hparams, &part) && binding->specs[part.whole] &&
           !binding->specs[part.whole]->optional;
}

static void spec_bind(struct halo_binding *binding, const struct halo_tensor_spec *spec, struct complaints *complaints)
{
    uint32_t n = halo_tensors_layered(spec->id) ? binding->n_layers : 1;
    struct halo_hparams hparams = *binding->hparams;
    char name[HALO_GGUF_MAX_NAME + 1];

    for (uint32_t layer = 0; layer < n; layer++) {
        if (spec->when && !spec->when(binding->hparams, layer))
            continue;
        assert(!binding->specs[spec->id] || binding->specs[spec->id] == spec);
        binding->specs[spec->id] = spec;
        halo_tensors_name(spec->id, layer, name);
        if (halo_tensors_layered(spec->id))
            halo_hparams_of_layer(binding->hparams, layer, &hparams);
        bool optional = spec->optional && !(spec->needed && spec->needed(binding->hparams, layer));
        const struct halo_gguf_tensor *tensor = halo_gguf_find_tensor(binding->gguf, name);
        const struct halo_gguf_tensor *whole =
            spec->instead ? halo_binding_find(binding, spec->instead - 1, layer) : whole_of(binding, spec->id, layer);
        if (tensor == whole) /* the fused tensor has the name of one of its parts */
            tensor = NULL;
        if (tensor && whole)
            complain(complaints, "%s appears twice: %s contains it too", name, whole->name);
        else if (tensor)
            tensor_check(tensor, spec, &hparams, complaints);
        else if (!whole && !optional && !is_part_of_needed(binding, spec->id))
            complain(complaints, "%s is missing", name);
        if (tensor)
            binding->found[spec->id * binding->n_layers + layer] = tensor;
        binding->n_found += (tensor || (whole && !spec->instead)) && !halo_tensors_is_whole(spec->id);
    }
}

static void scales_check(const struct halo_binding *binding, struct complaints *complaints)
{
    for (uint32_t i = 0; i < HALO_TENSOR_COUNT * binding->n_layers; i++) {
        const struct halo_gguf_tensor *tensor = binding->found[i], *scale;
        if (!tensor || !(scale = halo_binding_scale(binding, tensor)))
            continue;
        char is[96];
        shape_print(is, sizeof(is), scale->dims, scale->n_dims);
        if (scale->type != HALO_TYPE_F32)
            complain(complaints, "%s is %s, should be F32", scale->name, halo_type_info(scale->type).name);
        else if (scale->n_bytes != scale->dims[0] * sizeof(float) ||
                 (scale->dims[0] != 1 && scale->dims[0] != tensor->dims[2]))
            complain(complaints, "%s is %s, should be [%" PRIu64 "]", scale->name, is, tensor->dims[2]);
    }
}

int halo_binding_make(struct halo_binding *ret, struct halo_arena *arena, const struct halo_gguf *gguf,
                      const struct halo_arch *arch, const struct halo_hparams *hparams, struct halo_fault *fault)
{
    struct complaints complaints = {0};

    assert(hparams->n_layers >= 1 && hparams->n_layers <= HALO_MODEL_MAX_LAYERS);
    memset(ret, 0, sizeof(*ret));
    ret->gguf = gguf;
    ret->hparams = hparams;
    ret->n_layers = hparams->n_layers;
    ret->specs = halo_arena_alloc(arena, HALO_TENSOR_COUNT, sizeof(*ret->specs));
    ret->found = halo_arena_alloc(arena, (size_t)HALO_TENSOR_COUNT * hparams->n_layers, sizeof(*ret->found));
    if (!ret->specs || !ret->found)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the tensor table of the model");

    for (size_t i = 0; i < arch->n_tensors; i++)
        spec_bind(ret, &arch->tensors[i], &complaints);
    scales_check(ret, &complaints);
    if (complaints.n > complaints.n_told)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "%" PRIu64 " tensors do not fit a %s model: %s; and %" PRIu64 " more", complaints.n,
                              arch->name, complaints.text, complaints.n - complaints.n_told);
    if (complaints.n)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%" PRIu64 " tensor%s not fit a %s model: %s",
                              complaints.n, complaints.n == 1 ? " does" : "s do", arch->name, complaints.text);
    return strangers_check(ret, gguf, arch, fault);
}

const struct halo_gguf_tensor *halo_binding_find(const struct halo_binding *binding, enum halo_tensor_id id,
                                                 uint32_t layer)
{
    if (id >= HALO_TENSOR_COUNT || layer >= binding->n_layers)
        return NULL;
    return binding->found[id * binding->n_layers + (halo_tensors_layered(id) ? layer : 0)];
}

bool halo_binding_get(const struct halo_binding *binding, enum halo_tensor_id id, uint32_t layer,
                      struct halo_bound *ret)
{
    const struct halo_gguf_tensor *tensor = halo_binding_find(binding, id, layer);
    const struct halo_tensor_spec *spec = id < HALO_TENSOR_COUNT ? binding->specs[id] : NULL;
    struct halo_tensor_part part;

    if (tensor) {
        *ret =
            (struct halo_bound){.tensor = tensor, .offset = tensor->offset, .n_bytes = tensor->n_bytes, .suffix = ""};
        memcpy(ret->dims, tensor->dims, sizeof(ret->dims));
        return true;
    }
    struct halo_hparams hparams;
    halo_hparams_of_layer(binding->hparams, layer, &hparams);
    tensor = spec ? whole_of(binding, id, layer) : NULL;
    if (!tensor || !halo_tensors_part(id, &hparams, &part))
        return false;
    *ret = (struct halo_bound){.tensor = tensor, .suffix = part.suffix};
    for (uint32_t i = 0; i < 3; i++)
        ret->dims[i] = halo_tensors_extent(spec->dims[i], &hparams);
    bool vector = spec->role == HALO_WEIGHT_VECTOR;
    uint64_t row_bytes = halo_type_row_bytes(tensor->type, vector ? 1 : ret->dims[0]);
    uint64_t expert_bytes = row_bytes * ret->dims[vector ? 0 : 1];
    ret->n_bytes = expert_bytes * ret->dims[2];
    ret->offset = tensor->offset + row_bytes * part.first;
    if (spec->role == HALO_WEIGHT_EXPERTS)
        ret->expert_step = row_bytes * tensor->dims[1];
    assert(ret->offset + ret->expert_step * (ret->dims[2] - 1) + expert_bytes <= tensor->offset + tensor->n_bytes);
    return true;
}

const struct halo_gguf_tensor *halo_binding_scale(const struct halo_binding *binding,
                                                  const struct halo_gguf_tensor *tensor)
{
    char name[HALO_GGUF_MAX_NAME + 8];
    const struct halo_tensor_spec *spec = spec_of(binding, tensor->name);
    if (!spec || spec->role == HALO_WEIGHT_VECTOR || !name_swap(tensor->name, ".weight", ".scale", name) ||
        spec_of(binding, name))
        return NULL;
    return halo_gguf_find_tensor(binding->gguf, name);
}

/* All bytes of a tensor. */
static int bytes_read(const struct halo_binding *binding, const struct halo_gguf_tensor *tensor, void *ret,
                      struct halo_fault *fault)
{
    size_t done = 0, n_bytes = tensor->n_bytes;
    const char *path;
    int fd;

    path = halo_gguf_part_path(binding->gguf, tensor->part);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, -errno, "%s cannot be opened for %s", path,
                                tensor->name);
    while (done < n_bytes) {
        ssize_t got = pread(fd, (char *)ret + done, n_bytes - done, (off_t)(tensor->offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            int r = got < 0 ? -errno : -EIO;
            close(fd);
            return halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, r, "%s: %s cannot be read", path, tensor->name);
        }
        done += (size_t)got;
    }
    close(fd);
    return 0;
}

int halo_binding_read(const struct halo_binding *binding, const struct halo_gguf_tensor *tensor, float *ret, uint32_t n,
                      struct halo_fault *fault)
{
    assert(tensor && tensor->type == HALO_TYPE_F32 && tensor->n_bytes == (size_t)n * sizeof(float));
    return bytes_read(binding, tensor, ret, fault);
}

int halo_binding_read_table(const struct halo_binding *binding, const struct halo_gguf_tensor *tensor, int32_t *ret,
                            size_t n, struct halo_fault *fault)
{
    assert(tensor && tensor->type == HALO_TYPE_I32 && tensor->n_bytes == n * sizeof(int32_t));
    return bytes_read(binding, tensor, ret, fault);
}
