/* suggest.h: "did you mean", for a word that is none of those known. Pure; any thread. */
#ifndef HALO_CLIENT_SUGGEST_H
#define HALO_CLIENT_SUGGEST_H

#include <stddef.h>

#define HALO_CLIENT_SUGGESTIONS 3 /* named at most */

/* "; did you mean 'load' or 'unload'?" in `buf`, the nearest first, or "" when nothing known is near (as
 * protocol/suggest.h has it). Words two edits farther than the nearest are not named. A word that is known itself has
 * no suggestion. Returns buf. */
const char *halo_client_did_you_mean(const char *word, const char *const *known, size_t n_known, char *buf,
                                     size_t n_bytes);

#endif
