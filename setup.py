"""Builds the Cython modules: every .pyx under src/ is one extension of the same dotted name."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCES = sorted(Path("src").rglob("*.pyx"))


def extension(source: Path) -> Extension:
    name = ".".join(source.relative_to("src").with_suffix("").parts)
    return Extension(name, [str(source)], extra_compile_args=["-O3", "-fno-strict-aliasing"])


setup(
    ext_modules=cythonize(
        [extension(source) for source in SOURCES],
        include_path=["src"],
        build_dir="build/cython",
        compiler_directives={"language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True,
                             "embedsignature": True, "freethreading_compatible": False},
    )
)
