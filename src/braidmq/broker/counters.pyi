DROP_NAMES: tuple[str, ...]

class Counters:
    def by_name(self) -> dict[str, int]: ...
