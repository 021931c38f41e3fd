"""Save the models that later versions must be able to load: run for each release, and never again once it is out.

`python tests/data/models/make.py` writes one file for each model; what it predicts for its own table is kept in it.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from kernelkin import (
    LassoRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    TableSchema,
    TwoStageMKMTRLRegressor,
    __version__,
    gaussian_kernels,
    linear_kernels,
    save_model,
)

MODELS = {
    "coupled": MKMTRLRegressor([gaussian_kernels(1.0), linear_kernels(per_feature=True)], couplings="common"),
    "classes": MKMTRLClassifier(min_rank=2.0),
    "two-stages": TwoStageMKMTRLRegressor(n_rounds=50, random_state=0),
    "linear": LassoRegressor(),
}


def main() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"shop": np.repeat(["north", "south", "west"], 8), "size": rng.normal(100, 30, 24).round(1)})
    table["day"], table["promo"] = rng.choice(["Mon", "Sat"], 24), rng.random(24) < 0.5
    table["sales"] = (table["size"] + 20 * (table.day == "Sat") + rng.normal(size=24)).round(1)
    table["busy"] = np.where(table.sales > table.sales.median(), "yes", "no")
    for name, model in MODELS.items():
        target = "busy" if name == "classes" else "sales"
        schema = TableSchema.fit(
            table, "shop", target, ["sales" if target == "busy" else "busy"], regression=target == "sales"
        )
        model.fit(schema.encode(table), schema.targets(table), tasks=schema.tasks(table))
        said = schema.restore(model.predict(schema.encode(table), tasks=schema.tasks(table)))
        about = {"table": table.to_dict("list"), "predictions": said.tolist()}
        save_model(model, Path(__file__).parent / f"{name}-{__version__}.skops", schema=schema, about=about)


if __name__ == "__main__":
    main()
