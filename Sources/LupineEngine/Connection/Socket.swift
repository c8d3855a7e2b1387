internal import LupineIO

/// A connected socket; the descriptor lives as long as somebody holds this, a file thread that sends into it included.
final class Socket: Sendable {
  let descriptor: Descriptor

  init(_ descriptor: consuming Descriptor) {
    self.descriptor = descriptor
  }
}
