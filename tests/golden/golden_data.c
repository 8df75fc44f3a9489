/* golden_data.c: finds models and recordings by the environment that the test runner sets. */
#include "golden_data.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const struct halo_golden_model in_tree[] = {{"fable-Q4_K_M", false, false}};

static const struct halo_golden_model full[] = {
    {"draft-F32", false, true},           {"draft-F16", false, false},
    {"draft-BF16", false, false},         {"draft-Q8_0", false, false},
    {"draft-Q6_K", false, false},         {"draft-Q5_K", false, false},
    {"draft-Q5_1", false, false},         {"draft-Q5_0", false, false},
    {"draft-Q4_K", false, false},         {"draft-Q4_1", false, false},
    {"draft-Q4_0", false, false},         {"draft-IQ4_NL", false, false},
    {"draft-IQ4_XS", false, false},       {"draft-MXFP4", false, false},
    {"draft-Q3_K", false, false},         {"draft-Q2_K", false, false},
    {"draft-IQ1_S", false, false},        {"draft-IQ1_M", false, false},
    {"draft-IQ2_XXS", false, false},      {"draft-IQ2_XS", false, false},
    {"draft-IQ2_S", false, false},        {"draft-IQ3_XXS", false, false},
    {"draft-IQ3_S", false, false},        {"draft-TQ1_0", false, false},
    {"draft-TQ2_0", false, false},        {"draft-NVFP4", false, false},
    {"draft-Q1_0", false, false},         {"draft-Q2_0", false, false},
    {"fable-F16", false, false},          {"fable-Q8_0", false, false},
    {"fable-Q4_K_M", false, false},       {"fable-moe-F16", true, false},
    {"fable-moe-Q8_0", true, false},      {"fable-moe-Q4_K_M", true, false},
    {"tiny-llama", false, false},         {"tiny-llama3", false, false},
    {"tiny-llama-moe", true, false},      {"tiny-mistral-spm", false, false},
    {"tiny-qwen2", false, false},         {"tiny-qwen3", false, false},
    {"tiny-qwen3moe", true, false},       {"tiny-qwen3moe-nvfp4", true, false},
    {"tiny-qwen2moe", true, false},       {"tiny-glm4moe", true, false},
    {"tiny-glm4moe-air", true, false},    {"tiny-dots1", true, false},
    {"tiny-bailingmoe2", true, false},    {"tiny-ernie4_5-moe", true, false},
    {"tiny-granite", false, false},       {"tiny-olmo2", false, false},
    {"tiny-starcoder2", false, false},    {"tiny-smollm3", false, false},
    {"tiny-seed-oss", false, false},      {"tiny-hunyuan-dense", false, false},
    {"tiny-qwen3vl", false, false},       {"tiny-mistral3", false, false},
    {"tiny-phi3", false, false},          {"tiny-phi3-longrope", false, false},
    {"tiny-gemma2", false, false},        {"tiny-gemma3", false, false},
    {"tiny-gemma4", false, false},        {"tiny-gemma4-e", false, false},
    {"tiny-gemma4-moe", true, false},     {"tiny-gemma3-pat", false, false},
    {"tiny-cohere2", false, false},       {"tiny-exaone4", false, false},
    {"tiny-gpt-oss", true, false},        {"tiny-minimax-m2", true, false},
    {"tiny-deepseek2", true, false},      {"tiny-deepseek2-lite", true, false},
    {"tiny-deepseek4", true, false},      {"tiny-glm4-flash", true, false},
    {"tiny-lfm2moe", true, false},        {"tiny-qwen35", false, false},
    {"tiny-qwen35moe", true, false},      {"tiny-qwen3next", true, false},
    {"tiny-nemotron-h-moe", true, false}, {"tiny-nemotron-h-moe-latent", true, false},
    {"tiny-granitehybrid", true, false},  {"tiny-falcon-h1", false, false},
};

static const char *source_root(void)
{
    const char *root = getenv("HALO_SOURCE_ROOT");
    return root ? root : ".";
}

bool halo_golden_data_in_tree(struct halo_golden_data *ret)
{
    snprintf(ret->models, sizeof(ret->models), "%s/tests/models", source_root());
    snprintf(ret->recordings, sizeof(ret->recordings), "%s/tests/golden/recorded", source_root());
    snprintf(ret->peer, sizeof(ret->peer), "%s/tests/golden/recorded/peer.json", source_root());
    ret->list = in_tree;
    ret->n_list = sizeof(in_tree) / sizeof(in_tree[0]);
    return access(ret->peer, R_OK) == 0;
}

bool halo_golden_data_full(struct halo_golden_data *ret)
{
    const char *given = getenv("HALO_SHARED");
    char shared[HALO_GOLDEN_PATH - 64];

    if (given)
        snprintf(shared, sizeof(shared), "%s", given);
    else
        snprintf(shared, sizeof(shared), "%s/../shared", source_root());
    snprintf(ret->models, sizeof(ret->models), "%s/models", shared);
    snprintf(ret->recordings, sizeof(ret->recordings), "%s/golden", shared);
    snprintf(ret->peer, sizeof(ret->peer), "%s/golden/kld_llamacpp.json", shared);
    ret->list = full;
    ret->n_list = sizeof(full) / sizeof(full[0]);
    if (access(ret->peer, R_OK) == 0)
        return true;
    fprintf(stderr, "SKIPPED: the reference models and recordings are not at %s (HALO_SHARED)\n", shared);
    return false;
}

/* Runs zcat without a shell. */
static int unzip(const char *from, const char *to, struct halo_fault *fault)
{
    char temporary[HALO_GOLDEN_PATH];
    char *const argv[] = {(char *)"zcat", (char *)from, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int r, status = -1;

    snprintf(temporary, sizeof(temporary), "%s.%d", to, (int)getpid()); /* tests run side by side */
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, temporary, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    r = posix_spawnp(&pid, "zcat", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (r == 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    if (r != 0 || status != 0 || rename(temporary, to) != 0) {
        unlink(temporary);
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s cannot be unpacked to %s", from, to);
    }
    return 0;
}

int halo_golden_data_path(const struct halo_golden_data *data, const struct halo_golden_model *model,
                          char ret[HALO_GOLDEN_PATH], struct halo_fault *fault)
{
    const char *build = getenv("HALO_BUILD_ROOT");
    char zipped[HALO_GOLDEN_PATH + 64];
    int n;

    if (!model->zipped)
        n = snprintf(ret, HALO_GOLDEN_PATH, "%s/%s.gguf", data->models, model->stem);
    else
        n = snprintf(ret, HALO_GOLDEN_PATH, "%s/%s.gguf", build ? build : "/tmp", model->stem);
    if (n >= HALO_GOLDEN_PATH)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "the path of %s is too long", model->stem);
    if (!model->zipped || access(ret, R_OK) == 0)
        return 0;
    snprintf(zipped, sizeof(zipped), "%s/%s.gguf.gz", data->models, model->stem);
    return unzip(zipped, ret, fault);
}

const struct halo_golden_model *halo_golden_data_find(const struct halo_golden_data *data, const char *stem)
{
    for (size_t i = 0; i < data->n_list; i++)
        if (strcmp(data->list[i].stem, stem) == 0)
            return &data->list[i];
    return NULL;
}
