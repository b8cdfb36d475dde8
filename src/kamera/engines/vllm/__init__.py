"""Kamera in vLLM: an out-of-tree KV connector.

    plugin       registers the connector under its name
    connector    KameraConnector: the two halves behind vLLM's own interface
    settings     what can be set of it
    families     how each model type writes its media
    chunking     a request's tokens and media -> chunks
    steps        what a request gets from the store, chunk by chunk
    tracked      what is known of one request while it lives
    scheduler    the half beside the scheduler: matches, jobs, counters
    worker       the half beside the model: loads, captures, forming
    metadata     the jobs that the one gives the other
    waiting      KV that waits for its canonical
    pool         reads and writes KV in the engine's blocks
    rotary       the rotary scheme, from the engine's own module
    spool        which canonicals are wanted
    sums, stats  counters, and their Prometheus names
    fill         the companion that asks the engine for canonicals
    serve, serve_plan, served_config
                 `kamera serve`: the model's verdict, what will run and why, vLLM's own server
    compile, compile_plan, compile_requests, compile_engine
                 `kamera compile`: a store filled ahead from a file of requests

The modules that need vLLM import it; the rest don't, and are tested without it.
"""
