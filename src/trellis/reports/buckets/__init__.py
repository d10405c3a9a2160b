"""The report of `trellis recommend --suggest-buckets`: proposed Hvpa buckets, in every output format."""
