/// Does something when the last reference to it goes.
final class Farewell: Sendable {
  private let words: @Sendable () -> Void

  init(_ words: @escaping @Sendable () -> Void) { self.words = words }

  deinit { words() }
}
