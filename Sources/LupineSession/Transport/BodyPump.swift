internal import LupineEngine

/// Moves the chunks of a `BodyStream` into a channel, one at a time, as the socket makes room.
enum BodyPump {
  /// - Parameter makeStream: the caller's: it is called where it may wait, and not on the loop.
  static func start(_ makeStream: @escaping @Sendable () -> BodyStream, into channel: BodyChannel) {
    let task = Task.detached {
      // Where the request is over already, nobody is asked for a stream that nobody reads.
      guard !Task.isCancelled else { return }
      do {
        try await makeStream().run { chunk in
          await withCheckedContinuation { continuation in
            channel.write(chunk) { continuation.resume(returning: $0) }
          }
        }
        channel.finish()
      } catch {
        channel.fail(error)
      }
    }
    // A producer may wait for something that never comes; nobody needs it any more.
    channel.onClose { task.cancel() }
  }
}
