/* client.c: a client as requests see it. */
#include <serve/request/client.h>

void halo_client_init(struct halo_client *client, struct halo_quota *quota, struct halo_quota_user *user,
                      struct halo_json *out, struct halo_list *touched)
{
    *client = (struct halo_client){.quota = quota, .user = user, .out = out, .touched = touched};
    halo_list_init(&client->requests);
}

void halo_client_touch(struct halo_client *client)
{
    if (client->closed)
        return;
    if (client->out->len > client->seen_bytes) {
        size_t more = client->out->len - client->seen_bytes;
        halo_quota_add(client->quota, client->user, HALO_QUOTA_OUTPUT, more);
        client->output_bytes += more;
        client->seen_bytes = client->out->len;
    }
    if (!halo_list_is_linked(&client->touch))
        halo_list_append(client->touched, &client->touch);
}

void halo_client_settle(struct halo_client *client, size_t bytes)
{
    if (bytes > client->output_bytes)
        halo_quota_add(client->quota, client->user, HALO_QUOTA_OUTPUT, bytes - client->output_bytes);
    else
        halo_quota_give_back(client->quota, client->user, HALO_QUOTA_OUTPUT, client->output_bytes - bytes);
    client->output_bytes = bytes;
    client->seen_bytes = client->out->len;
}

void halo_client_break(struct halo_client *client)
{
    if (client->closed)
        return;
    client->broken = true;
    halo_client_touch(client);
}
