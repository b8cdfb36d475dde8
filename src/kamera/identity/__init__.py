"""Identity: all that decides a chunk's bytes goes into its name, so that a mismatch is a miss.

    encoding   the typed, length-prefixed bytes under every digest
    digests    digest(domain, version, value): SHA-256, domain-separated, hex
    model      ModelKey, Shard, Adapter
    media      MediaIdentity over what the processor hands to the tower
    chunk      ChunkKey, AntecedentKey
    patches    PatchNames
    weights    weights_digest(folder): a checkpoint's revision from its contents

A digest is computed here from the thing itself. Nothing takes an image's or a chunk's digest from a
client, and nothing is keyed on a path, a URL or a time.
"""

from kamera.identity.chunk import (
    CHUNK_KINDS,
    MEDIA_KINDS,
    POSITION_LAYOUT_VERSION,
    AntecedentKey,
    ChunkKey,
)
from kamera.identity.digests import DIGEST_LEN, check_digest, check_tenant, digest
from kamera.identity.encoding import encode
from kamera.identity.media import MediaIdentity
from kamera.identity.model import Adapter, ModelKey, Shard
from kamera.identity.patches import PatchNames
from kamera.identity.weights import weights_digest

__all__ = [
    "CHUNK_KINDS",
    "DIGEST_LEN",
    "MEDIA_KINDS",
    "POSITION_LAYOUT_VERSION",
    "Adapter",
    "AntecedentKey",
    "ChunkKey",
    "MediaIdentity",
    "ModelKey",
    "PatchNames",
    "Shard",
    "check_digest",
    "check_tenant",
    "digest",
    "encode",
    "weights_digest",
]
