internal import LupineEngine

/// Moves the chunks of a `BodyStream` into a channel, one at a time, as the socket makes room.
enum BodyPump {
  static func start(_ stream: BodyStream, into channel: BodyChannel) {
    let task = Task.detached {
      do {
        try await stream.run { chunk in
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
