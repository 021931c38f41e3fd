/* Predictions by the page itself, from the same numbers as in Python: kernels at the training rows, dual variables,
   kernel weights and intercepts. */
function readFormula(W) {
  const arrays = W.arrays.map((content) => {
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    return new Float64Array(bytes.buffer);
  });
  return { arrays, functions: W.functions, location: arrays[W.location], scale: arrays[W.scale], output: W.output };
}

/* The prediction for features x (d,) of task t: `value` and, where known, `low` and `high`. */
function predictFormula(F, x, t) {
  const value = taskValue(F, F.functions, x, t), O = F.output;
  if (O.kind === "probability") return { value: probability(F, O, value, t) };
  const found = F.location[t] + F.scale[t] * value;
  if (O.half === undefined) return { value: found };
  const half = F.arrays[O.half][t] * F.scale[t];
  return { value: found, low: found - half, high: found + half };
}

/* A logistic link; log odds count less where its slopes and its offset are uncertain. */
function probability(F, O, value, t) {
  const center = F.arrays[O.centers][t], offset = F.arrays[O.offsets][t], row = [value, value - center, 1];
  const covariance = F.arrays[O.covariances].subarray(9 * t, 9 * t + 9);
  const variance = sum(row.flatMap((u, a) => row.map((v, b) => u * v * covariance[3 * a + b])));
  const logit = O.slope * (value - center) + O.between * center + offset + O.shift;
  return 1 / (1 + Math.exp(-logit / Math.sqrt(1 + Math.PI / 8 * Math.max(variance, 0))));
}

function taskValue(F, G, x, t) {
  const A = F.arrays;
  if (G.kind === "linear") {
    return A[G.intercept][t] + x.reduce((total, value, j) => total + value * A[G.coef][t * x.length + j], 0);
  }
  return sum(G.shares[t].map(([e, start, stop, weights]) => {
    const outputs = expansionValues(F, G.expansions[e], x, start, stop);
    return sum(weights.map((weight, r) => weight * outputs[r * (stop - start) / weights.length]));
  }));
}

/* Values of some outputs of an expansion: sum over kernels k and rows i of weight_k a_i k(x, x_i), and the intercept. */
function expansionValues(F, E, x, start, stop) {
  const out = range(stop - start).map((o) => F.arrays[E.intercept][start + o]),
    O = F.arrays[E.intercept].length,
    d = x.length;
  for (const bundle of E.bundles) {
    const rows = F.arrays[bundle.rows], a = F.arrays[bundle.a], weights = F.arrays[bundle.weights];
    bundle.kernels.forEach((kernel, k) => {
      for (let i = 0; i < bundle.n; i++) {
        const value = kernelValue(F, kernel, x, rows, i * d);
        for (let o = 0; o < out.length; o++) out[o] += weights[k * O + start + o] * a[i * O + start + o] * value;
      }
    });
  }
  return out;
}

function kernelValue(F, kernel, x, rows, at) {
  let total = 0;
  if (kernel.kind === "polynomial") {
    for (const j of kernel.columns) total += x[j] * rows[at + j];
    return (total + kernel.coef0) ** kernel.degree;
  }
  for (const j of kernel.columns) total += (x[j] - rows[at + j]) ** 2;
  return Math.exp(-.5 * total / kernel.width ** 2);
}
