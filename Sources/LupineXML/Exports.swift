// One import is enough, as in the module below.
@_exported public import Lupine
