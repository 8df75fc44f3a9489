/* golden_data.h: where models and recordings lie, and which there are.
 *
 * Two sets: the one in the tree (one model, two prompts), which every clone can check, and the full one in the shared
 * folder beside the tree, which may be absent.
 */
#ifndef HALO_GOLDEN_DATA_H
#define HALO_GOLDEN_DATA_H

#include <stdbool.h>
#include <stddef.h>

#include <base/fault.h>

#define HALO_GOLDEN_PATH 4096

struct halo_golden_model {
    const char *stem;
    bool experts; /* judged by the median: the mean is set by few positions whose expert choice tips over */
    bool zipped;  /* STEM.gguf.gz */
};

struct halo_golden_data {
    char models[HALO_GOLDEN_PATH], recordings[HALO_GOLDEN_PATH], peer[HALO_GOLDEN_PATH];
    const struct halo_golden_model *list;
    size_t n_list;
};

/* false when the set is not there; the full one then says so on stderr. */
bool halo_golden_data_in_tree(struct halo_golden_data *ret);
bool halo_golden_data_full(struct halo_golden_data *ret);

/* The path of a model file; a zipped one is unpacked into the build folder first. */
int halo_golden_data_path(const struct halo_golden_data *data, const struct halo_golden_model *model,
                          char ret[HALO_GOLDEN_PATH], struct halo_fault *fault);
const struct halo_golden_model *halo_golden_data_find(const struct halo_golden_data *data, const char *stem);

#endif
