/* paths.h: where things are when nobody says: for a service (root, or systemd's directories) and for a plain user.
 *
 * Reads the environment: RUNTIME_DIRECTORY STATE_DIRECTORY (set by systemd), XDG_RUNTIME_DIR XDG_DATA_HOME
 * XDG_CONFIG_HOME XDG_STATE_HOME HOME. docs/CONFIG.md has the table.
 */
#ifndef HALO_SERVE_PATHS_H
#define HALO_SERVE_PATHS_H

#include <stddef.h>

#include <base/fault.h>

#include <serve/config.h>

/* The default configuration file, whether it exists or not. 0, or -ENOENT when there is no place for one. */
int halo_paths_config(char *ret_path, size_t room);

/* Fills what the configuration leaves open: socket, model directories, state directory, engine program. The directory
 * of a default socket is made if need be. */
int halo_paths_complete(struct halo_config *config, struct halo_fault *fault);

#endif
