"""Questions about operands and element types that rules of several families share."""
