"""The order of the gallery: from what to see first to what is for the curious."""

ORDER = (
    "countries",
    "messy_table",
    "drug_response",
    "molecules",
    "command_line",
    "all_models",
    "digits",
    "groups",
    "unseen_tasks",
    "cross_validation",
    "views",
    "precomputed",
    "certificate",
    "collapse",
    "own_model",
)


class GalleryOrder:
    """The place of an example; one that is not in the list is an error."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> int:
        return ORDER.index(filename.removeprefix("plot_").removesuffix(".py"))
