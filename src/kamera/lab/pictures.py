"""Real pictures that install from a package: views panned over scikit-learn's two photographs."""

from pathlib import Path

from PIL import Image

NUM_VIEWS = 8
VIEW_PX = 320


def write_views(folder: Path) -> Path:
    """Eight overlapping views as PNG files, named in order; an agent's camera panning. Gives the folder."""
    from sklearn.datasets import load_sample_images

    folder.mkdir(parents=True, exist_ok=True)
    photos = load_sample_images().images
    per_photo = NUM_VIEWS // len(photos)
    for number in range(NUM_VIEWS):
        photo = Image.fromarray(photos[number // per_photo])
        step = (photo.width - VIEW_PX) // (per_photo - 1)
        left = (number % per_photo) * step
        view = photo.crop((left, 60, left + VIEW_PX, 60 + VIEW_PX))
        view.save(folder / f"view{number + 1}.png")
    return folder
