/* native.c: calls of what is built in: arguments by position and by name.
 *
 * Arguments that do not fit are a TYPE_ERROR. Fails as a run does (jinja_priv.h).
 */
#include <string.h>

#include "jinja_priv.h"

static int bind_named(struct halo_jinja_run *run, struct halo_jinja_call *call, const struct halo_jinja_entry *named)
{
    for (size_t i = 0; i < HALO_JINJA_MAX_PARAMS && call->native->params[i]; i++)
        if (halo_jinja_is_text(named->key, call->native->params[i], strlen(call->native->params[i]))) {
            if (call->arg[i].kind != HALO_JINJA_MISSING)
                return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "%s() got '%s' twice", call->native->name,
                                       call->native->params[i]);
            call->arg[i] = named->value;
            return 0;
        }
    return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "%s() takes no argument '%.*s'", call->native->name,
                           named->key.string->n < 40 ? (int)named->key.string->n : 40, named->key.string->bytes);
}

int halo_jinja_call_native(struct halo_jinja_run *run, const struct halo_jinja_native *native,
                           struct halo_jinja_value self, const struct halo_jinja_args *args,
                           struct halo_jinja_value *ret)
{
    struct halo_jinja_call call = {.native = native, .self = self, .raw = args};
    size_t n_params = 0;
    while (n_params < HALO_JINJA_MAX_PARAMS && native->params[n_params])
        n_params++;
    if (!native->any && args->n > n_params)
        return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "%s() takes at most %zu arguments, not %zu", native->name,
                               n_params, args->n);
    for (size_t i = 0; i < HALO_JINJA_MAX_PARAMS; i++)
        call.arg[i] = !native->any && i < args->n ? args->items[i] : halo_jinja_missing();
    for (size_t i = 0; !native->any && i < args->n_named; i++) {
        int r = bind_named(run, &call, &args->named[i]);
        if (r)
            return r;
    }
    for (size_t i = 0; i < native->n_required; i++)
        if (call.arg[i].kind == HALO_JINJA_MISSING)
            return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "%s() is missing its argument '%s'", native->name,
                                   native->params[i]);
    return native->call(run, &call, ret);
}
