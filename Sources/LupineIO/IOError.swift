internal import CLupineLinux

/// The system call that failed.
package enum SystemCall: String, Hashable, Sendable {
  case accept, bind, changeMode, close, connect, epollControl, epollCreate, epollWait, eventDescriptor, link, listen,
    localAddress, lock, makeDirectory
  case open, pipe, poll, read, receive, rename, send, sendFile, socket, socketOption, splice, status, synchronize
  case threadCreate, truncate, unlink, write
}

/// Why the system refused to do what was asked of it.
///
/// A case stands for the fact, whichever errno reported it. "Would block" is never an error, and the errnos that only a
/// mistake of ours can cause never become one: see `SystemCalls`.
package enum IOError: Error, Hashable, Sendable {
  /// Nobody listens at the address (ECONNREFUSED).
  case refused
  /// No route to the network or host (ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN).
  case unreachable(code: Int32)
  /// The peer reset the connection (ECONNRESET, ECONNABORTED).
  case reset
  /// The peer no longer reads (EPIPE).
  case brokenPipe
  /// The kernel gave up on the peer: connect or keep-alive timed out (ETIMEDOUT).
  case timedOut
  /// A deadline of ours passed before a connection was made.
  case deadlinePassed
  /// The local address is in use, or all ports are (EADDRINUSE).
  case addressInUse
  /// The address does not exist on this machine, or lacks its scope, or its family is not supported
  /// (EADDRNOTAVAIL, EAFNOSUPPORT; EINVAL from connect and bind).
  case addressNotAvailable(code: Int32)
  /// The process or the system has too many open descriptors (EMFILE, ENFILE).
  case descriptorLimit(code: Int32)
  /// The kernel is out of memory or buffers (ENOMEM, ENOBUFS).
  case outOfMemory(code: Int32)
  /// Access denied (EACCES, EPERM, EROFS).
  case permissionDenied(code: Int32)
  /// The file or directory, or the Unix socket, does not exist (ENOENT, ENOTDIR).
  case notFound(code: Int32)
  /// The file exists already (EEXIST).
  case alreadyExists
  /// A symbolic link where none is followed, or a loop of them (ELOOP).
  case symbolicLink
  /// No room on the disk, or none left of the quota, or the file would be too large (ENOSPC, EDQUOT, EFBIG).
  case storageFull(code: Int32)
  /// A path longer than the system or the socket address allows, or one that holds a NUL (ENAMETOOLONG).
  case badPath
  /// Source and target lie on different file systems (EXDEV).
  case crossDevice
  /// A directory or file that somebody else could change: not ours, writable by others, no directory or regular file, or with another name.
  case untrusted
  /// Somebody else has locked the file.
  case inUse
  /// The file threads were shut down.
  case stopped
  /// Anything else.
  case other(SystemCall, code: Int32)

  init(_ call: SystemCall, code: Int32) {
    switch code {
    case ECONNREFUSED: self = .refused
    case ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN: self = .unreachable(code: code)
    case ECONNRESET, ECONNABORTED: self = .reset
    case EPIPE: self = .brokenPipe
    case ETIMEDOUT: self = .timedOut
    case EADDRINUSE: self = .addressInUse
    case EADDRNOTAVAIL, EAFNOSUPPORT: self = .addressNotAvailable(code: code)
    case EINVAL where call == .connect || call == .bind: self = .addressNotAvailable(code: code)
    case EMFILE, ENFILE: self = .descriptorLimit(code: code)
    case ENOMEM, ENOBUFS: self = .outOfMemory(code: code)
    case EACCES, EPERM, EROFS: self = .permissionDenied(code: code)
    case ENOENT, ENOTDIR: self = .notFound(code: code)
    case EEXIST: self = .alreadyExists
    case ELOOP: self = .symbolicLink
    case ENOSPC, EDQUOT, EFBIG: self = .storageFull(code: code)
    case ENAMETOOLONG: self = .badPath
    case EXDEV: self = .crossDevice
    default: self = .other(call, code: code)
    }
  }

  /// The errno behind the case; 0 where none was involved.
  package var code: Int32 {
    switch self {
    case .refused: ECONNREFUSED
    case .reset: ECONNRESET
    case .brokenPipe: EPIPE
    case .timedOut: ETIMEDOUT
    case .deadlinePassed, .stopped, .untrusted: 0
    case .crossDevice: EXDEV
    case .inUse: EWOULDBLOCK
    case .addressInUse: EADDRINUSE
    case .alreadyExists: EEXIST
    case .symbolicLink: ELOOP
    case .badPath: ENAMETOOLONG
    case .unreachable(let code), .addressNotAvailable(let code), .descriptorLimit(let code), .outOfMemory(let code),
      .permissionDenied(let code), .notFound(let code), .storageFull(let code), .other(_, let code):
      code
    }
  }
}

extension IOError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .deadlinePassed: "deadline passed"
    case .stopped: "file threads were shut down"
    case .untrusted: "somebody else could change it: it must be ours alone, and no link"
    case .inUse: "another download is using it"
    case .other(let call, let code): "\(SystemCalls.message(code)) (\(call.rawValue), errno \(code))"
    default: "\(SystemCalls.message(code)) (errno \(code))"
    }
  }
}

extension IOError {
  /// Whether the kernel found no address and port to send from (EADDRNOTAVAIL).
  var hasNoSource: Bool { if case .addressNotAvailable(code: EADDRNOTAVAIL) = self { true } else { false } }
}
