internal import LupineBase
