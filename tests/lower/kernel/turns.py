"""What the schedule of a program says about loops over several kernels."""


def turns_of(compiled, *args):
    """How many turns each step of a program has, of which loops."""
    schedule = compiled.lower(*args).schedule().splitlines()
    heads = [line for line in schedule if line.startswith("nest ")]
    return [line.split(", in ")[1] if ", in " in line else "" for line in heads]
