"""Kamera in vLLM: an out-of-tree KV connector.

    plugin       registers the connector under its name
    connector    KameraConnector: the two halves behind vLLM's own interface
    settings     what can be set of it
    families     how each model type writes its media
    chunking     a request's tokens and media -> chunks
    served       what a request gets from the store, chunk by chunk
    scheduler    the half beside the scheduler: matches, jobs, counters
    worker       the half beside the model: loads, captures, forming
    pool         reads and writes KV in the engine's blocks
    rotary       the rotary scheme, from the engine's own module
    spool        which canonicals are wanted
    stats        counters, and their Prometheus names

The modules that need vLLM import it; the rest don't, and are tested without it.
"""
