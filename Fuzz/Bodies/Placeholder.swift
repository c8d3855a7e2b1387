internal import LupineWire
