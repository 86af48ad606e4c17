"""The store: values that outlive a request, each under a key and with an expiry time."""
