/* budget.h: what a plan takes of a device, and what there is room for.
 *
 * Pure functions of a plan and of what the device says of itself; any thread.
 */
#ifndef HALO_ENGINE_BUDGET_H
#define HALO_ENGINE_BUDGET_H

#include <stdint.h>

#include <kernels/device.h>
#include <model/placement.h>

/* What limits a load. */
struct halo_room {
    uint64_t bytes;            /* that it may take now */
    uint64_t held_bytes;       /* by the models that are there */
    uint64_t free_bytes;       /* of the device */
    uint64_t budget_bytes;     /* of all models; 0: nobody has set one */
    uint64_t checkpoint_bytes; /* for checkpoints of states of a model, beside the slots of its sequences; at most */
};

#define HALO_BATCH_ROWS 256     /* rows of a step that every plan allows; halo_budget_rows says how many more */
#define HALO_STREAMED_ROWS 2048 /* that one with streamed experts wants */

struct halo_budget {
    uint64_t weights_bytes, kv_bytes, scratch_bytes; /* scratch includes the engine's own (logits, sampler) */
    /* Of a plan with streamed experts or layers: their slots; weights_bytes counts the fewest that do. Else zeros. */
    uint64_t slot_bytes;
    uint32_t least_slots;
    uint64_t free_bytes; /* that the plan may take */
    uint32_t max_pages;  /* of the first group, that fit with what the others get beside weights and scratch */
    /* What the bytes of a pool follow from. Of each group: bytes of a page as the device counts, and the span. */
    uint32_t n_groups, context_pages;
    struct {
        uint64_t page_bytes;
        uint32_t span; /* pages that one sequence holds, at most; UINT32_MAX: as many as of the first group */
    } groups[HALO_KV_GROUPS_MAX];
};
void halo_budget_of(const struct halo_device_ops *ops, const struct halo_device *device, const struct halo_plan *plan,
                    uint64_t free_bytes, struct halo_budget *ret);

/* Of a settled plan with streamed experts: what a placement counts when the experts have slots. */
void halo_budget_streamed(const struct halo_budget *budget, const struct halo_plan *plan,
                          struct halo_placement_options *ret);

/* The rows of a step that the plan should allow: those wanted, or half of them, a quarter and so on, at least
 * HALO_BATCH_ROWS, so that the scratch takes little of free_bytes and a pool of n_pages still fits. */
uint32_t halo_budget_rows(const struct halo_device_ops *ops, const struct halo_device *device,
                          const struct halo_plan *plan, uint64_t free_bytes, uint32_t n_pages, uint32_t wanted);

/* Bytes of the KV cache when the first group has n_pages and a whole sequence takes n_context of them; UINT64_MAX when
 * they are beyond any memory. */
uint64_t halo_budget_pool_bytes(const struct halo_budget *budget, uint64_t n_pages, uint32_t n_context);

/* Slots for checkpoints alone, in each group of states, that `bytes` pay for beside a pool of n_pages: as far as memory
 * reaches (of a model with streamed experts, an eighth of what is left), and no more than there are pages to which one
 * can belong. */
struct halo_budget_checkpoints {
    uint32_t n, n_wanted; /* that fit; that `bytes` would pay for */
    uint64_t slot_bytes;  /* of all groups together; 0: the model has no states */
};
struct halo_budget_checkpoints halo_budget_checkpoints_of(const struct halo_budget *budget,
                                                          const struct halo_plan *plan, uint64_t n_pages,
                                                          uint64_t bytes);

/* A plan as a load makes it: rows of a step, pages of the pool, checkpoints. The least pool is known to fit. */
struct halo_settled {
    uint32_t batch_rows;   /* with which the device's prompts are fastest; plan->max_rows has those that there are */
    uint64_t pages_wanted; /* of the first group; n_pages: those that there are, without checkpoints */
    uint32_t n_pages;
    struct halo_budget_checkpoints checkpoints;
    struct halo_budget budget;
};
/* exact: the pool has the least pages and no more. checkpoint_bytes: for checkpoints, at most. */
void halo_budget_settle(const struct halo_device_ops *ops, const struct halo_device *device, struct halo_plan *plan,
                        uint64_t free_bytes, uint32_t least_pages, bool exact, uint64_t checkpoint_bytes,
                        struct halo_settled *ret);

/* KV cache that each token of a sequence takes, and what its windows and states take, however long it is. */
uint64_t halo_budget_token_bytes(const struct halo_budget *budget);
uint64_t halo_budget_sequence_bytes(const struct halo_budget *budget);

/* Both in words, with what a sequence of the plan's context takes. */
#define HALO_CACHE_TEXT 384
void halo_budget_cache_text(const struct halo_budget *budget, const struct halo_plan *plan, char ret[HALO_CACHE_TEXT]);

/* The largest context, at most `limit`, with which n_sequences whole sequences have their KV cache in what is free:
 * what the sentence "load with a context of at most N" says. 0 when not even one page each fits. Whole pages, unless it
 * is `limit` itself. */
uint32_t halo_budget_fit_context(const struct halo_budget *budget, uint32_t n_sequences, uint32_t limit);

/* What is left to the rest of the machine, of the host's memory: a thirty-second, at least 512 MiB (or a sixteenth,
 * where that is less) and at most 4 GiB. */
uint64_t halo_budget_reserve(uint64_t total_bytes);

/* What models may take of a device now: free memory less the reserve, which is the least one
 * where the device has memory of its own. */
uint64_t halo_budget_free_bytes(const struct halo_device_info *info);

#endif
