"""Engines: the only importers of Transformers, vLLM and SGLang.

An adapter does four things: it names the chunks of a request, reads KV out of the engine, writes
composed KV into it, and prefills. `contract` says them as a protocol.
"""
