/* golden_file.c: reads recorded evaluations and the peer's figures. One thread. */
#include "golden_file.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const halo_golden_prompts[HALO_GOLDEN_PROMPTS] = {"p_short", "p_unicode", "p_long", "p_chat"};

static int bad(struct halo_fault *fault, const char *path, const char *what)
{
    return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s: %s", path, what);
}

static json_t *json_read(const char *path, struct halo_fault *fault)
{
    json_error_t error;
    json_t *root;

    if (access(path, R_OK) != 0) {
        halo_fault_set(fault, HALO_FAULT_NOT_FOUND, "%s does not exist", path);
        return NULL;
    }
    root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s line %d: %s", path, error.line, error.text);
    return root;
}

static bool uint_get(const json_t *object, const char *key, uint32_t *ret)
{
    const json_t *value = json_object_get(object, key);
    *ret = (uint32_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= INT32_MAX;
}

static bool real_get(const json_t *object, const char *key, double *ret)
{
    const json_t *value = json_object_get(object, key);
    *ret = json_number_value(value);
    return json_is_number(value);
}

/* Appends an array of ids. */
static bool ids_take(const json_t *array, uint32_t n_vocab, int32_t *ids, uint32_t *n)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        json_int_t id = json_integer_value(json_array_get(array, i));
        if (id < 0 || id >= (json_int_t)n_vocab)
            return false;
        ids[(*n)++] = (int32_t)id;
    }
    return true;
}

static bool step_read(const json_t *object, uint32_t n_vocab, struct halo_golden_step *ret)
{
    const json_t *top = json_object_get(object, "top");

    if (!uint_get(object, "pos", &ret->pos) || !real_get(object, "lse", &ret->lse) ||
        json_array_size(top) != HALO_GOLDEN_TOP)
        return false;
    for (size_t i = 0; i < HALO_GOLDEN_TOP; i++) {
        const json_t *pair = json_array_get(top, i);
        json_int_t id = json_integer_value(json_array_get(pair, 0));
        if (json_array_size(pair) != 2 || id < 0 || id >= (json_int_t)n_vocab)
            return false;
        ret->id[i] = (int32_t)id;
        ret->logit[i] = json_number_value(json_array_get(pair, 1));
        if (i > 0 && ret->logit[i] > ret->logit[i - 1])
            return false;
    }
    return true;
}

static int content_read(struct halo_golden_file *ret, const json_t *root, const char *path, struct halo_fault *fault)
{
    const json_t *tokens = json_object_get(root, "tokens"), *greedy = json_object_get(root, "greedy");
    const json_t *steps = json_object_get(root, "steps");
    const char *sha256 = json_string_value(json_object_get(root, "model_sha256"));
    size_t n_all = json_array_size(tokens) + json_array_size(greedy);
    uint32_t format = 0;

    if (!uint_get(root, "format", &format) || format != 1)
        return bad(fault, path, "not of format 1");
    if (!sha256 || strlen(sha256) != HALO_SHA256_HEX - 1)
        return bad(fault, path, "no model_sha256");
    memcpy(ret->model_sha256, sha256, HALO_SHA256_HEX);
    if (!uint_get(root, "n_vocab", &ret->n_vocab) || !uint_get(root, "n_prompt", &ret->n_prompt) ||
        !uint_get(root, "first_pos", &ret->first_pos))
        return bad(fault, path, "n_vocab, n_prompt or first_pos is missing");
    if (ret->n_prompt == 0 || json_array_size(tokens) != ret->n_prompt || n_all > 4096 ||
        ret->first_pos >= ret->n_prompt)
        return bad(fault, path, "the counts of tokens do not agree");
    ret->tokens = calloc(n_all, sizeof(*ret->tokens));
    ret->steps = calloc(json_array_size(steps) + 1, sizeof(*ret->steps));
    if (!ret->tokens || !ret->steps)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "%s: no memory", path);
    if (!ids_take(tokens, ret->n_vocab, ret->tokens, &ret->n_tokens) ||
        !ids_take(greedy, ret->n_vocab, ret->tokens, &ret->n_tokens))
        return bad(fault, path, "a token id is outside the vocabulary");
    ret->n_steps = (uint32_t)json_array_size(steps);
    if (ret->n_steps == 0 || ret->n_steps != ret->n_tokens - 1 - ret->first_pos)
        return bad(fault, path, "the number of steps does not agree with the tokens");
    for (uint32_t i = 0; i < ret->n_steps; i++)
        if (!step_read(json_array_get(steps, i), ret->n_vocab, &ret->steps[i]) ||
            ret->steps[i].pos != ret->first_pos + i)
            return bad(fault, path, "a step is broken");
    return 0;
}

int halo_golden_file_read(struct halo_golden_file *ret, const char *dir, const char *stem, const char *prompt,
                          struct halo_fault *fault)
{
    char path[4096];
    json_t *root;
    int r;

    memset(ret, 0, sizeof(*ret));
    snprintf(path, sizeof(path), "%s/%s.%s.json", dir, stem, prompt);
    root = json_read(path, fault);
    if (!root)
        return -1;
    r = content_read(ret, root, path, fault);
    json_decref(root);
    if (r < 0)
        halo_golden_file_finish(ret);
    return r;
}

void halo_golden_file_finish(struct halo_golden_file *file)
{
    free(file->tokens);
    free(file->steps);
    memset(file, 0, sizeof(*file));
}

int halo_golden_peer_read(struct halo_golden_peer *ret, const char *path, const char *stem, const char *setting,
                          struct halo_fault *fault)
{
    char key[128];
    json_t *root = json_read(path, fault);
    const json_t *entry, *prompts;
    bool good;

    if (!root)
        return -1;
    snprintf(key, sizeof(key), "%s.gguf", stem);
    entry = json_object_get(json_object_get(root, key), setting);
    prompts = json_object_get(entry, "per_prompt");
    good = real_get(entry, "kld11_mean", &ret->mean) && real_get(entry, "kld11_median", &ret->median);
    for (int i = 0; i < HALO_GOLDEN_PROMPTS && good; i++) {
        const json_t *prompt = json_object_get(prompts, halo_golden_prompts[i]);
        good = real_get(prompt, "kld11_mean", &ret->prompt_mean[i]) &&
               real_get(prompt, "max_abs_logit", &ret->prompt_max_abs_logit[i]);
    }
    json_decref(root);
    return good ? 0 : halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s: no figures of %s, %s", path, stem, setting);
}
