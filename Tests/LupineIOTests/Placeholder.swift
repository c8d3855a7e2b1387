internal import LupineIO
