"""Builds the Cython modules: every .pyx under src/ is one extension of the same dotted name."""

import multiprocessing
import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# Names of the modules to build, for quick rebuilds while working on one of them; all when empty.
ONLY = set(filter(None, os.environ.get("BRAIDMQ_ONLY", "").split(",")))
SOURCES = sorted(Path("src").rglob("*.pyx"))

PROCESSORS = os.cpu_count() or 1
# Where workers would import this file again instead of being forked, Cython has to run in one process.
TRANSLATORS = PROCESSORS if multiprocessing.get_start_method() == "fork" else 0


def dotted_name(source: Path) -> str:
    return ".".join(source.relative_to("src").with_suffix("").parts)


def extension(source: Path) -> Extension:
    # No debug information: it takes a sixth of the build time, and function names are there without it.
    flags = ["-O3", "-g0", "-fno-strict-aliasing"]
    return Extension(dotted_name(source), [str(source)], extra_compile_args=flags)


setup(
    ext_modules=cythonize(
        [extension(source) for source in SOURCES if not ONLY or dotted_name(source) in ONLY],
        include_path=["src"],
        build_dir="build/cython",
        nthreads=TRANSLATORS,
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "embedsignature": True,
            "freethreading_compatible": False,
        },
    ),
    options={"build_ext": {"parallel": PROCESSORS}},
)
