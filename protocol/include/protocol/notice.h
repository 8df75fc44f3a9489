/* notice.h: the codes of `notice` events.
 *
 * Whatever is done differently from what was asked or expected has a code. One list gives the enum, the names and the
 * priority. A notice goes to the request that it is about, to each request that waits for the same, and to the log of
 * the program that sees it first, with the priority of its code.
 */
#ifndef HALO_PROTOCOL_NOTICE_H
#define HALO_PROTOCOL_NOTICE_H

#include <stdbool.h>
#include <stddef.h>

/* X(ID, name, of_load, warns, meaning)
 * of_load: it is about a load, and all who wait for it get it; otherwise about one reply. warns: the log has it as a
 * warning; otherwise as information. */
#define HALO_NOTICE_LIST(X)                                                                                            \
    X(MODEL_EVICTED, model_evicted, true, false, "a model was unloaded to make room for the load")                     \
    X(EXPERTS_SHRUNK, experts_shrunk, true, false,                                                                     \
      "a model gave back a part of its cache of experts to make room for the load")                                    \
    X(PREFIXES_NOT_SAVED, prefixes_not_saved, true, true, "cached prefixes of an evicted model could not be saved")    \
    X(IO_FALLBACK, io_fallback, true, true, "the model file is read in a slower way")                                  \
    X(DEVICE_FALLBACK, device_fallback, true, true, "the device runs the model in a slower way")                       \
    X(LOAD_CHANGED, load_changed, true, true,                                                                          \
      "loaded with values that differ from the request, or from what the model file suggests")                         \
    X(PREFIXES_IGNORED, prefixes_ignored, true, true, "saved prefixes of the model are not used")                      \
    X(PROFILE_IGNORED, profile_ignored, false, true, "the stored profile of a model's speeds is not used")             \
    X(TEMPLATE_UNUSABLE, template_unusable, true, true, "a chat template of the model cannot be used")                 \
    X(MEMORY_PRESSURE, memory_pressure, false, true,                                                                   \
      "memory is short: a cache of experts shrinks, experts are not read ahead, or loads are refused; or this is "     \
      "over")                                                                                                          \
    X(ENGINE_RESTARTED, engine_restarted, false, false, "the engine died, and another one continues the reply")        \
    X(LOOP_DETECTED, loop_detected, false, false, "the reply repeats itself")

enum halo_notice {
    HALO_NOTICE_UNKNOWN = -1, /* a name that this build does not know, read from a newer peer */
#define X(ID, name, of_load, warns, meaning) HALO_NOTICE_##ID,
    HALO_NOTICE_LIST(X)
#undef X
        HALO_N_NOTICES
};

/* "model_evicted" and so on; "unknown" for everything else. Never NULL. */
const char *halo_notice_name(enum halo_notice code);

/* The code of a name that need not be NUL-terminated; HALO_NOTICE_UNKNOWN when there is none. */
enum halo_notice halo_notice_from_name(const char *name, size_t len);

/* What is unknown is of no load, and warns. */
bool halo_notice_is_of_load(enum halo_notice code);
bool halo_notice_warns(enum halo_notice code);

/* What the code means, half a sentence. Never NULL. */
const char *halo_notice_meaning(enum halo_notice code);

#endif
