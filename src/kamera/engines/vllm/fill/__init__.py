"""The fill companion: canonicals that no client's request gives, made off the clients' path.

A patch needs the KV of its chunk with nothing in front. The engine only ever prefills chunks behind
others, and a connector can't schedule requests. So the server's front end sends **solo requests**, one
chunk each, through the engine's own client.

settings    policy, budget, bounds
source      what a solo request is made from: an image as a client sent it, or a span of token ids
body        the images of a chat request's body
traffic     clients' requests in flight
budget      at most so many solo requests a minute
intake      sources that wait, each once
kept        images that were sent, for a canonical that is evicted
wanted      the spool `<store>/wanted`: chunks whose canonical the connector misses
sender      one solo request, through vLLM's own renderer and engine client
companion   the task that ties them together
counters    what it did
middleware  ASGI: watches the bodies of POST /v1/chat/completions
endpoint    vLLM's endpoint plug-in: starts the companion, answers GET /kamera/fill
"""

ENDPOINT_PLUGIN = "kamera_fill"
"""The endpoint plug-in's name, for `VLLM_PLUGINS`."""

MIDDLEWARE = "kamera.engines.vllm.fill.middleware.FillMiddleware"
"""For `vllm serve --middleware`."""
