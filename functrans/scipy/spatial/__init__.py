"""Of `scipy.spatial`, what has derivatives: distances."""

from functrans.scipy.spatial import distance

__all__ = ["distance"]
