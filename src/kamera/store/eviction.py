"""Who has to leave: the least recently used that nobody holds."""

from collections.abc import Callable

from kamera.store.directory import Directory
from kamera.store.entry import EntryKey
from kamera.store.index import Index
from kamera.store.owner import Owner

__all__ = ["drop_dead_owners", "evict", "find_victims"]


def find_victims(
    index: Index, excess: int, stays: Callable[[EntryKey], bool], owner: Owner
) -> list[EntryKey] | None:
    """Entries that free `excess` bytes together, none that `stays` or is pinned by anyone alive.

    None if that much can't be freed. Call it inside a transaction.
    """
    victims: list[EntryKey] = []
    if excess <= 0:
        return victims
    drop_dead_owners(index, owner)
    for key, freed in index.unpinned():
        if not stays(key):
            victims.append(key)
            excess -= freed
            if excess <= 0:
                return victims
    return None


def evict(index: Index, directory: Directory, victims: list[EntryKey]) -> None:
    """Remove the files and the rows of `victims`. Call it inside a transaction."""
    for key in victims:
        directory.discard(directory.file_of(key))
        index.remove(key, evicted=True)


def drop_dead_owners(index: Index, owner: Owner) -> None:
    """Forget the pins of stores whose process is gone."""
    for name in index.owners():
        if owner.is_dead(name):
            index.remove_owner(name)
