"""Choose kernel weights and strength for each task of wide data by held-out errors."""
