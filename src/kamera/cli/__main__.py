"""`python -m kamera.cli` is `kamera`."""

from kamera.cli import main

if __name__ == "__main__":
    main()
