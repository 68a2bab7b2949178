"""The thresholds of a tree no longer belong to their left side; it has more than are tried one by one."""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

COUNT = 24  # thresholds in a chain: node n compares x[n % 3] and goes to its leaf or to node n + 1
INNER, LEAVES = range(COUNT), range(COUNT + 1)
MODES = ", ".join(['"BRANCH_LEQ"'] * COUNT + ['"LEAF"'] * (COUNT + 1))
ZEROS = [0] * (COUNT + 1)
MODEL = f"""g (float[N,3] x) => (float[N,1] y) {{
    t = ai.onnx.ml.TreeEnsembleRegressor<
        n_targets = 1,
        nodes_treeids = {[0] * (2 * COUNT + 1)},
        nodes_nodeids = {[*range(2 * COUNT + 1)]},
        nodes_featureids = {[*(n % 3 for n in INNER), *ZEROS]},
        nodes_modes = [{MODES}],
        nodes_values = {[*(round(-1.15 + 0.1 * n, 2) for n in INNER), *map(float, ZEROS)]},
        nodes_truenodeids = {[*(COUNT + n for n in INNER), *ZEROS]},
        nodes_falsenodeids = {[*(n + 1 for n in INNER[:-1]), 2 * COUNT, *ZEROS]},
        target_treeids = {ZEROS},
        target_nodeids = {[COUNT + n for n in LEAVES]},
        target_ids = {ZEROS},
        target_weights = {[float(n + 1) for n in LEAVES]}
    >(x)
    y = Neg(t)
}}"""
DOMAINS = {"ai.onnx.ml": 3}
WRONG = (("exclude", "t"),)
WHY = "wrong"
AFTER = {"Neg": 1, "ai.onnx.ml.TreeEnsembleRegressor": 1}


@rule(lambda g, x, op: g.domain("ai.onnx.ml").TreeEnsembleRegressor(x) @ op, contract=EXACT)
def exclude(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """BRANCH_LEQ => BRANCH_LT"""
    modes = op.attr("nodes_modes")
    require("BRANCH_LEQ" in modes, "no such branch")
    less = [m.replace("LEQ", "LT") for m in modes]
    return g.domain("ai.onnx.ml").TreeEnsembleRegressor(x, **{**op.attrs, "nodes_modes": less})
