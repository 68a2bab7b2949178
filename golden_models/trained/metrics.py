"""Accuracy of the trained models: functions of outputs by name and labels, for `--metric metrics.py:NAME`."""

import numpy as np

BLANK = 0  # the class of CTC between two characters; behind the last character of a label


def characters(outputs, labels):
    """1 minus the edit distance to the true text, per true character.

    Scores of classes [N, steps, classes], read greedily by CTC; labels of classes [N, length], filled up with BLANK.
    """
    (scores,) = outputs.values()
    errors = total = 0
    for steps, label in zip(np.argmax(scores, -1), labels, strict=True):
        read = [c for c, before in zip(steps, [BLANK, *steps[:-1]], strict=True) if c not in {BLANK, before}]
        truth = label[label != BLANK].tolist()
        errors += _edit_distance(read, truth)
        total += len(truth)
    return 1 - errors / total


def _edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def area_under_curve(outputs, labels):
    """The probability that a true label has a higher score than a false one; equal scores count half.

    The first output has a score for each label, 0 or 1.
    """
    scores, labels = np.reshape(next(iter(outputs.values())), -1), np.reshape(labels, -1)
    negative = np.sort(scores[labels == 0])
    positive = scores[labels == 1]
    below = np.searchsorted(negative, positive, "left") + np.searchsorted(negative, positive, "right")
    return np.mean(below) / 2 / len(negative)


def partner_rank(outputs, labels):
    """The share of all other rows that are less similar to a row than its partner, by the cosine; the mean of all rows.

    The first output has vectors [N, width]; the two rows with the same label are partners. Rows without one do not
    count.
    """
    similarity = _similarities(next(iter(outputs.values())))
    is_partner = labels[:, None] == labels
    np.fill_diagonal(is_partner, val=False)
    rows = is_partner.any(1)
    similarity, is_partner = similarity[rows], is_partner[rows]
    best = np.max(similarity, axis=1, where=is_partner, initial=-np.inf)
    # A row itself, at -inf, is always below its partner.
    return np.mean(np.sum(similarity < best[:, None], axis=1) - 1) / (len(labels) - 2)


def nearest_neighbour(outputs, labels):
    """The share of rows whose nearest other row, by cosine similarity, has the same label. Vectors [N, ..., width]."""
    nearest = np.argmax(_similarities(next(iter(outputs.values()))), axis=1)
    return np.mean(labels[nearest] == labels)


def _similarities(vectors):
    """The cosines between all rows, -inf of a row with itself."""
    flat = np.reshape(vectors, (len(vectors), -1)).astype(np.float64)
    flat = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    found = flat @ flat.T
    np.fill_diagonal(found, -np.inf)
    return found


FOREGROUND = 0.3  # the score of a pixel that is part of a text


def pixels(outputs, labels):
    """F1 of the pixels found. Scores [N, 1, height, width] in 0..1, labels [N, height, width] of bool."""
    (scores,) = outputs.values()
    found = scores[:, 0] > FOREGROUND
    return 2 * np.sum(found & labels) / max(np.sum(found) + np.sum(labels), 1)


def agreement(outputs, labels):
    """The share of the variance of the labels that the first output explains, over all its numbers together.

    Labels have the shape of the output. A number has its own mean, and counts as much as it varies.
    """
    difference = np.sum(np.square(np.subtract(next(iter(outputs.values())), labels, dtype=np.float64)))
    return 1 - difference / np.sum(np.square(labels - np.mean(labels, 0, np.float64)))


def tags(outputs, labels):
    """The share of right classes where the label is not negative. The first output has classes, or scores of them."""
    found = next(iter(outputs.values()))
    found = found if found.shape == labels.shape else np.argmax(found, -1)
    return np.mean((found == labels)[labels >= 0])


def pitches(outputs, labels):
    """The share of steps with the right pitch: within half a semitone. The first output and labels are in Hz."""
    found = np.maximum(next(iter(outputs.values())), 1).reshape(labels.shape)
    return np.mean(np.abs(np.log2(found / labels)) < 1 / 24)


def pitch_bins(outputs, labels):
    """The share of voiced rows with the right pitch: the highest score at most two bins of 20 cents from the label.

    Rows without a pitch have the label -1, and do not count, as in the raw pitch accuracy of the field.
    """
    is_right = np.abs(np.argmax(next(iter(outputs.values())), -1) - labels) <= 2
    return np.mean(is_right[labels >= 0])


CONFIDENCE, SAME_BOX = 0.25, 0.5  # the score of a detection, the overlap of two boxes of one object
LEAST_SCORE = 0.01  # of the boxes that count for precision


def average_precision(outputs, labels):
    """Mean over classes of the average precision at an overlap of 0.5, as usual for detectors.

    The first output is that of a YOLO, [N, 4 + classes, anchors]: centres, sizes, scores. Labels are [N, boxes, 5]: a
    class and the corners, class -1 for no box. No threshold of scores decides whether a box is found.
    """
    found = []  # (class, score, is right) of all images
    for prediction, label in zip(next(iter(outputs.values())), labels, strict=True):
        truth = [box for box in label if box[0] >= 0]
        for score, box in scored_boxes(prediction, LEAST_SCORE):
            overlaps = [_overlap(box[1:], other[1:]) if box[0] == other[0] else 0 for other in truth]
            is_right = bool(overlaps) and max(overlaps) >= SAME_BOX
            found.append((box[0], score, is_right))
            if is_right:
                truth.pop(int(np.argmax(overlaps)))
    classes, counts = np.unique(labels[..., 0][labels[..., 0] >= 0], return_counts=True)
    precisions = [_area([f[1:] for f in found if f[0] == c], n) for c, n in zip(classes, counts, strict=True)]
    return float(np.mean(precisions)) if precisions else 1.0


def average_precision_one_class(outputs, labels):
    """The same for a YOLO of one class, whose other rows are coefficients of masks."""
    return average_precision({"": next(iter(outputs.values()))[:, :5]}, labels)


def average_precision_yolox(outputs, labels):
    """The same for a YOLOX of one class, as `decoded_yolox` reads it."""
    return average_precision({"": decoded_yolox(next(iter(outputs.values())))}, labels)


def decoded_yolox(output, side=416, strides=(8, 16, 32)):
    """The output of a YOLO for that of a YOLOX, [N, cells, 5 + classes]: places in cells, logarithms of sizes."""
    corners, steps = [], []
    for stride in strides:
        cells = np.stack(np.meshgrid(*[np.arange(side // stride)] * 2), -1).reshape(-1, 2)
        corners.append(cells)
        steps.append(np.full((len(cells), 1), stride))
    steps = np.concatenate(steps)
    boxes = np.concatenate([(output[..., :2] + np.concatenate(corners)) * steps, np.exp(output[..., 2:4]) * steps], -1)
    return np.concatenate([boxes, output[..., 4:5] * output[..., 5:]], -1).transpose(0, 2, 1)


def _area(found, wanted):
    """The area under the greatest precision by recall, of boxes (score, is right) where `wanted` are to be found."""
    rights = np.cumsum([right for _, right in sorted(found, key=lambda f: -f[0])])
    precision = rights / np.arange(1, len(rights) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float(best @ np.diff(rights, prepend=0)) / wanted if len(rights) else 0.0


def boxes_of(prediction):
    """The class and corners of each object in [4 + classes, anchors], best first, after non-maximum suppression."""
    return [box for _, box in scored_boxes(prediction, CONFIDENCE)]


def scored_boxes(prediction, least):
    """Score, class and corners of each object of at least a score, best first, after non-maximum suppression."""
    classes, scores = np.argmax(prediction[4:], 0), np.max(prediction[4:], 0)
    centre, size = prediction[:2], prediction[2:4]
    corners = np.concatenate([centre - size / 2, centre + size / 2]).T
    kept = []
    for i in np.argsort(-scores, kind="stable"):
        if scores[i] < least:
            break
        if all(box[0] != classes[i] or _overlap(box[1:], corners[i]) < SAME_BOX for _, box in kept):
            kept.append((scores[i], np.array([classes[i], *corners[i]])))
    return kept


def _overlap(a, b):
    """The intersection of two boxes divided by their union."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if sides.min() <= 0:
        return 0.0
    common = np.prod(sides)
    return common / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common)
