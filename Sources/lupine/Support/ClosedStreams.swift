internal import Glibc

extension System {
  /// Puts something into the places of standard streams that are closed: otherwise what is opened next, a file or a connection, would be read for input, or
  /// written what people are told. Opened the wrong way round, so that using them fails as it would have.
  static func occupyClosedStreams() {
    for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(descriptor, F_GETFD) < 0 {
      // The lowest place that is free is this one.
      _ = unsafe open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
    }
  }
}
