internal import CLupineLinux

/// Every system call of the package, each with the same treatment of `errno`:
///
/// - **EINTR** is retried here, so callers never see it. Exceptions: `close`, where Linux has let go of the number already and a
///   second call could close somebody else's descriptor; `epoll_wait`, where it counts as "no events"; `connect`, where the
///   attempt goes on in the background exactly as after EINPROGRESS.
/// - **EAGAIN and EINPROGRESS** are values (`wouldBlock`, `inProgress`), never errors.
/// - **EBADF, EFAULT, ENOTSOCK** can only come from a mistake in this package: they trap, because going on with a descriptor
///   that is not ours reads or writes somebody else's data. **EINVAL** traps too where every argument is made by this package
///   (epoll, event descriptors, socket reads and writes, socket options, clocks). It is an ordinary error where a user's address, path or
///   kind of file can cause it: connect, bind, open, rename, reads, writes, sync and `sendfile` of files,
///   and `splice`.
/// - Everything else becomes an `IOError`, which keeps the number.
///
/// Every descriptor is born close-on-exec, every socket nonblocking. SIGPIPE: sockets are written with MSG_NOSIGNAL; `sendfile`
/// knows no such flag and may only be called on threads of this package, which block every signal.
package enum SystemCalls {
  /// Runs `body` until it is not interrupted. nil stands for EAGAIN.
  @inline(__always)
  static func value(
    _ call: SystemCall, invalidArgumentTraps: Bool, _ body: () -> Int
  ) throws(IOError) -> Int? {
    while true {
      let result = body()
      if result >= 0 { return result }
      let code = clupine_errno()
      switch code {
      case EINTR: continue
      case EAGAIN: return nil
      default: throw failure(call, code, invalidArgumentTraps: invalidArgumentTraps)
      }
    }
  }

  @inline(never)
  static func failure(_ call: SystemCall, _ code: Int32, invalidArgumentTraps: Bool) -> IOError {
    switch code {
    case EBADF, EFAULT, ENOTSOCK: preconditionFailure("\(call.rawValue): errno \(code), a mistake of the caller")
    case EINVAL where invalidArgumentTraps: preconditionFailure("\(call.rawValue): invalid argument")
    default: return IOError(call, code: code)
    }
  }

  /// The text of an errno. `strerror` has a buffer per thread since glibc 2.32, and none in musl.
  static func message(_ code: Int32) -> String {
    unsafe strerror(code).map { unsafe String(cString: $0) } ?? "error \(code)"
  }

  // MARK: Clocks

  @inline(__always)
  static func clock(_ clock: clockid_t) -> Int64 {
    var time = timespec()
    let code = unsafe clock_gettime(clock, &time)
    precondition(code == 0, "clock_gettime failed")
    return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
  }

  // MARK: Processors

  /// On how many processors the calling thread or the process's first one may run; 0 where nobody says.
  static var processors: Int { Int(clupine_processors()) }

  // MARK: Descriptors

  static func eventDescriptor(semaphore: Bool) throws(IOError) -> Descriptor {
    let flags = Int32(EFD_CLOEXEC | EFD_NONBLOCK) | (semaphore ? Int32(EFD_SEMAPHORE) : 0)
    return try descriptor(.eventDescriptor) { eventfd(0, flags) }
  }

  /// Adds to an event descriptor. A counter that is full is as good as one that was raised.
  static func signal(_ event: borrowing Descriptor, by amount: UInt64 = 1) {
    var amount = amount
    while true {
      let result = unsafe CLupineLinux.write(event.number, &amount, 8)
      if result == 8 { return }
      let code = clupine_errno()
      if code == EAGAIN { return }
      precondition(code == EINTR, "write to an event descriptor: errno \(code)")
    }
  }

  /// Takes one from an event descriptor that counts as a semaphore, or all from another; false if it stood at zero.
  static func take(_ event: borrowing Descriptor) -> Bool {
    var amount: UInt64 = 0
    while true {
      let result = unsafe CLupineLinux.read(event.number, &amount, 8)
      if result == 8 { return true }
      let code = clupine_errno()
      if code == EAGAIN { return false }
      precondition(code == EINTR, "read from an event descriptor: errno \(code)")
    }
  }

  /// Waits until `descriptor` is readable; false if `milliseconds` passed first, or the system refuses to wait. Blocks: not for loops, but where one stands back (`ProcessorGate`).
  static func waitReadable(_ descriptor: borrowing Descriptor, milliseconds: Int32) -> Bool {
    var entry = pollfd(fd: descriptor.number, events: Int16(POLLIN), revents: 0)
    let result = unsafe poll(&entry, 1, milliseconds)
    // An interrupted wait looks like readiness: whoever waits looks at its condition again anyway. Any other failure (no descriptor is allowed any
    // more, no memory) would come again at once, and looks like time that has passed.
    return result > 0 || result < 0 && clupine_errno() == EINTR
  }

  // MARK: epoll

  static func makeEpoll() throws(IOError) -> Descriptor {
    try descriptor(.epollCreate) { epoll_create1(Int32(EPOLL_CLOEXEC)) }
  }

  static func epollAdd(
    _ epoll: borrowing Descriptor, _ number: Int32, events: UInt32, token: UInt64
  ) throws(IOError) {
    var event = unsafe epoll_event(events: events, data: epoll_data_t(u64: token))
    _ = try value(.epollControl, invalidArgumentTraps: true) {
      Int(unsafe epoll_ctl(epoll.number, EPOLL_CTL_ADD, number, &event))
    }
  }

  /// Forgets a descriptor. One that is unknown already is fine: closing it does the same.
  static func epollRemove(_ epoll: borrowing Descriptor, _ number: Int32) {
    var event = unsafe epoll_event()
    guard unsafe epoll_ctl(epoll.number, EPOLL_CTL_DEL, number, &event) != 0 else { return }
    let code = clupine_errno()
    precondition(code == ENOENT, "epoll_ctl DEL \(number): errno \(code)")
  }

  /// Whether `epoll_pwait2`, which takes nanoseconds, exists: kernel 5.11 and later, unless a sandbox forbids it.
  static func hasPreciseEpollWait(_ epoll: borrowing Descriptor) -> Bool {
    var event = unsafe epoll_event()
    var none = timespec()
    return unsafe clupine_epoll_pwait2(epoll.number, &event, 1, &none) >= 0 || clupine_errno() == EINTR
  }

  /// Waits for events; `nanoseconds` < 0 waits for ever. Without `precise`, the time is rounded up to milliseconds.
  ///
  /// - Returns: how many events there are, 0 after an interruption without any.
  @inline(__always)
  static func epollWait(
    _ epoll: borrowing Descriptor, _ events: UnsafeMutableBufferPointer<epoll_event>, nanoseconds: Int64, precise: Bool
  ) -> Int {
    let number = epoll.number
    let maximum = Int32(truncatingIfNeeded: events.count)
    let result: Int32
    if nanoseconds <= 0 {
      unsafe result = epoll_wait(number, events.baseAddress, maximum, nanoseconds == 0 ? 0 : -1)
    } else if precise {
      var time = timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
      unsafe result = clupine_epoll_pwait2(number, events.baseAddress, maximum, &time)
    } else {
      unsafe result = epoll_wait(number, events.baseAddress, maximum, milliseconds(nanoseconds))
    }
    if result >= 0 { return Int(result) }
    return unsafe epollWaitAgain(number, events, clupine_errno(), precise ? nanoseconds : 0)
  }

  private static func milliseconds(_ nanoseconds: Int64) -> Int32 {
    Int32(min((nanoseconds - 1) / 1_000_000 + 1, Int64(Int32.max)))
  }

  /// - Parameter precise: the nanoseconds that were asked for of `epoll_pwait2`, if that was asked.
  @inline(never)
  private static func epollWaitAgain(
    _ number: Int32, _ events: UnsafeMutableBufferPointer<epoll_event>, _ code: Int32, _ precise: Int64
  ) -> Int {
    let maximum = Int32(truncatingIfNeeded: events.count)
    var code = code
    if precise > 0, code == ENOSYS || code == EPERM {
      // A filter of system calls that came after the loop, or another kernel under a process that was moved. Not remembered: it costs a call each time.
      let result = unsafe epoll_wait(number, events.baseAddress, maximum, milliseconds(precise))
      if result >= 0 { return Int(result) }
      code = clupine_errno()
    }
    precondition(code == EINTR, "epoll_wait: errno \(code)")
    // A process that was stopped is told of an interruption, though what came meanwhile is there: without a look at it time would seem to have
    // run out.
    return max(0, Int(unsafe epoll_wait(number, events.baseAddress, maximum, 0)))
  }

  // MARK: Sockets

  /// Whether `connect` is done already.
  package enum ConnectResult: Equatable, Sendable { case connected, inProgress, backlogFull }

  static func makeSocket(_ family: Int32) throws(IOError) -> Descriptor {
    try descriptor(.socket) {
      socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
    }
  }

  package static func connect(_ socket: borrowing Descriptor, to address: SocketAddress) throws(IOError)
    -> ConnectResult
  {
    let number = socket.number
    let code = try unsafe address.withSystemAddress { pointer, length in
      unsafe CLupineLinux.connect(number, pointer, length) == 0 ? 0 : clupine_errno()
    }
    switch code {
    case 0, EISCONN: return .connected
    case EINPROGRESS, EINTR, EALREADY: return .inProgress
    // Only Unix-domain sockets: the listener's queue is full, and nothing goes on in the background.
    case EAGAIN: return .backlogFull
    default: throw failure(.connect, code, invalidArgumentTraps: false)
    }
  }

  static func bind(_ socket: borrowing Descriptor, to address: SocketAddress) throws(IOError) {
    let number = socket.number
    let code = try unsafe address.withSystemAddress { pointer, length in
      unsafe CLupineLinux.bind(number, pointer, length) == 0 ? 0 : clupine_errno()
    }
    guard code == 0 else { throw failure(.bind, code, invalidArgumentTraps: false) }
  }

  /// The error that a socket keeps for whoever asks, which forgets it; nil if there is none.
  package static func pendingError(_ socket: borrowing Descriptor) -> IOError? {
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    guard unsafe getsockopt(socket.number, SOL_SOCKET, SO_ERROR, &code, &length) == 0 else {
      return failure(.connect, clupine_errno(), invalidArgumentTraps: true)
    }
    return code == 0 ? nil : IOError(.connect, code: code)
  }

  static func setOption(_ socket: borrowing Descriptor, _ level: Int32, _ name: Int32, _ value: Int32) throws(IOError) {
    var value = value
    let number = socket.number
    _ = try self.value(.socketOption, invalidArgumentTraps: false) {
      Int(unsafe setsockopt(number, level, name, &value, socklen_t(MemoryLayout<Int32>.size)))
    }
  }

  /// How many bytes must wait in a socket for it to be reported readable (SO_RCVLOWAT); false if it knows no such thing.
  package static func setReceiveLowWatermark(_ socket: borrowing Descriptor, _ bytes: Int) -> Bool {
    do throws(IOError) {
      try setOption(socket, SOL_SOCKET, SO_RCVLOWAT, Int32(clamping: bytes))
      return true
    } catch {
      return false
    }
  }

  /// The socket's own address; nil if the family is none of ours, or the system does not say.
  package static func localAddress(_ socket: borrowing Descriptor) -> SocketAddress? {
    let number = socket.number
    return unsafe SocketAddress.reading { pointer, length in
      if unsafe getsockname(number, pointer, length) == 0 { return true }
      // Traps for a mistake of ours.
      _ = failure(.localAddress, clupine_errno(), invalidArgumentTraps: true)
      return false
    }
  }

  /// Reads from a socket.
  @inline(__always)
  static func receive(
    _ socket: borrowing Descriptor, _ buffer: UnsafeMutableRawBufferPointer
  ) throws(IOError) -> ReadResult {
    let number = socket.number
    let count = try value(.receive, invalidArgumentTraps: true) {
      unsafe recv(number, buffer.baseAddress, buffer.count, 0)
    }
    return count.map { $0 == 0 ? .end : .bytes($0) } ?? .wouldBlock
  }

  /// Reads bytes that have been reported, and says how many; 0 or less if there is anything else to say, which the next read does.
  @inline(__always)
  static func receiveIfAny(_ number: Int32, _ buffer: UnsafeMutableRawBufferPointer) -> Int {
    unsafe recv(number, buffer.baseAddress, buffer.count, 0)
  }

  /// Looks at what waits in a socket without taking it: a probe of an idle connection.
  package static func peek(_ socket: borrowing Descriptor) throws(IOError) -> ReadResult {
    var byte: UInt8 = 0
    let number = socket.number
    let count = try value(.receive, invalidArgumentTraps: true) {
      unsafe recv(number, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT))
    }
    return count.map { $0 == 0 ? .end : .bytes($0) } ?? .wouldBlock
  }

  /// Writes to a socket; never raises SIGPIPE. `more` promises that more follows at once (MSG_MORE).
  package static func send(
    _ socket: borrowing Descriptor, _ bytes: Span<UInt8>, more: Bool = false
  ) throws(IOError) -> WriteResult {
    let number = socket.number
    let flags = Int32(MSG_NOSIGNAL | (more ? MSG_MORE : 0))
    return try unsafe bytes.withUnsafeBytes { buffer throws(IOError) in
      let count = try value(.send, invalidArgumentTraps: true) {
        unsafe CLupineLinux.send(number, buffer.baseAddress, buffer.count, flags)
      }
      return count.map { .bytes($0) } ?? .wouldBlock
    }
  }

  /// Writes two runs of bytes with one call: a head and its body. Never raises SIGPIPE.
  package static func send(
    _ socket: borrowing Descriptor, _ first: Span<UInt8>, _ second: Span<UInt8>
  ) throws(IOError) -> WriteResult {
    let number = socket.number
    return try unsafe first.withUnsafeBytes { head throws(IOError) in
      try unsafe second.withUnsafeBytes { tail throws(IOError) in
        var parts = unsafe (
          iovec(iov_base: UnsafeMutableRawPointer(mutating: head.baseAddress), iov_len: head.count),
          iovec(iov_base: UnsafeMutableRawPointer(mutating: tail.baseAddress), iov_len: tail.count)
        )
        return try unsafe withUnsafeMutablePointer(to: &parts) { pair throws(IOError) in
          try unsafe pair.withMemoryRebound(to: iovec.self, capacity: 2) { vectors throws(IOError) in
            var message = unsafe msghdr()
            unsafe message.msg_iov = vectors
            unsafe message.msg_iovlen = 2
            let count = try value(.send, invalidArgumentTraps: true) {
              unsafe sendmsg(number, &message, Int32(MSG_NOSIGNAL))
            }
            return count.map { .bytes($0) } ?? .wouldBlock
          }
        }
      }
    }
  }

  /// Tells the peer that nothing more comes; a peer that has gone already is no error.
  package static func shutdownWriting(_ socket: borrowing Descriptor) throws(IOError) {
    guard shutdown(socket.number, Int32(SHUT_WR)) != 0 else { return }
    let code = clupine_errno()
    if code != ENOTCONN { throw failure(.send, code, invalidArgumentTraps: true) }
  }

  /// The index of a network interface, nil if there is none of that name.
  static func interfaceIndex(_ name: String) -> UInt32? {
    guard !name.utf8.contains(0) else { return nil }
    let index = unsafe if_nametoindex(name)
    return index == 0 ? nil : index
  }

  // MARK: Files

  static func open(_ path: String, _ flags: Int32, mode: mode_t = 0) throws(IOError) -> Descriptor {
    guard !path.isEmpty, !path.utf8.contains(0) else { throw .badPath }
    return try descriptor(.open) { unsafe clupine_open(path, flags | O_CLOEXEC, mode) }
  }

  /// Reads from a place in a file; 0 at its end.
  static func read(
    _ file: borrowing Descriptor, _ buffer: UnsafeMutableRawBufferPointer, at offset: Int64
  ) throws(IOError) -> Int {
    let number = file.number
    return try value(.read, invalidArgumentTraps: false) {
      unsafe pread(number, buffer.baseAddress, buffer.count, off_t(offset))
    } ?? 0
  }

  /// Writes everything to a place in a file.
  static func writeAll(
    _ file: borrowing Descriptor, _ bytes: UnsafeRawBufferPointer, at offset: Int64
  ) throws(IOError) {
    let number = file.number
    var written = 0
    while written < bytes.count {
      let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[written...])
      let place = off_t(offset) + off_t(written)
      let count = try value(.write, invalidArgumentTraps: false) {
        unsafe pwrite(number, rest.baseAddress, rest.count, place)
      }
      // A file that takes nothing and names no reason would keep us here for ever.
      guard let count, count > 0 else { throw IOError(.write, code: EIO) }
      written += count
    }
  }

  /// Waits until the disk has everything.
  static func synchronize(_ file: borrowing Descriptor) throws(IOError) {
    let number = file.number
    _ = try value(.synchronize, invalidArgumentTraps: false) { Int(fsync(number)) }
  }

  static func truncate(_ file: borrowing Descriptor, to size: Int64) throws(IOError) {
    let number = file.number
    _ = try value(.truncate, invalidArgumentTraps: false) { Int(ftruncate(number, off_t(size))) }
  }

  /// The size in bytes, and whether this is a regular file, for which alone the size means something.
  static func status(_ file: borrowing Descriptor) throws(IOError) -> (size: Int64, isRegular: Bool) {
    let number = file.number
    var status = stat()
    _ = try value(.status, invalidArgumentTraps: true) { Int(unsafe fstat(number, &status)) }
    return (Int64(status.st_size), Int32(status.st_mode) & Int32(S_IFMT) == Int32(S_IFREG))
  }

  static func rename(_ from: String, to: String) throws(IOError) {
    guard ![from, to].contains(where: { $0.isEmpty || $0.utf8.contains(0) }) else { throw .badPath }
    try refuseSpecial(to)
    _ = try value(.rename, invalidArgumentTraps: false) { Int(unsafe CLupineLinux.rename(from, to)) }
  }

  /// A device, a FIFO or a socket, or a link to one, does not lose its name to a file: who wrote `/dev/null` meant what is there.
  ///
  /// - Throws: `.alreadyExists`.
  static func refuseSpecial(_ path: String) throws(IOError) {
    guard let kind = kind(of: path, 0) else { return }
    guard kind == Int32(S_IFREG) || kind == Int32(S_IFDIR) else { throw .alreadyExists }
  }

  /// No file can take the place of a directory; that of a link to one it can.
  ///
  /// - Throws: `.alreadyExists`.
  static func refuseDirectory(_ path: String) throws(IOError) {
    if kind(of: path, AT_SYMLINK_NOFOLLOW) == Int32(S_IFDIR) { throw .alreadyExists }
  }

  /// What `S_IFMT` covers of the mode; nil if nothing is there that could be asked.
  private static func kind(of path: String, _ flags: Int32) -> Int32? {
    var status = stat()
    guard unsafe fstatat(AT_FDCWD, path, &status, flags) == 0 else { return nil }
    return Int32(status.st_mode) & Int32(S_IFMT)
  }

  static func unlink(_ path: String) throws(IOError) {
    guard !path.isEmpty, !path.utf8.contains(0) else { throw .badPath }
    _ = try value(.unlink, invalidArgumentTraps: false) { Int(unsafe CLupineLinux.unlink(path)) }
  }

  // MARK: Names

  /// Asks the system's name service. Blocks for as long as that likes.
  static func lookUp(_ host: String, atMost limit: Int) -> Result<[SocketAddress], ResolveError> {
    var hints = unsafe addrinfo()
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var list: UnsafeMutablePointer<addrinfo>?
    let code = unsafe getaddrinfo(host, nil, &hints, &list)
    defer { if let list = unsafe list { unsafe freeaddrinfo(list) } }
    guard code == 0 else {
      let failure = resolveError(code, clupine_errno())
      // Without a descriptor the C library reads no file and asks no server, and finds nothing.
      return .failure(hasDescriptors ? failure : .descriptors)
    }
    var addresses: [SocketAddress] = []
    var seen: Set<SocketAddress> = []
    var next = unsafe list
    while let entry = unsafe next, addresses.count < limit {
      let bytes = unsafe UnsafeRawBufferPointer(start: entry.pointee.ai_addr, count: Int(entry.pointee.ai_addrlen))
      if let address = unsafe SocketAddress(bytes), seen.insert(address).inserted { addresses.append(address) }
      unsafe next = entry.pointee.ai_next
    }
    return addresses.isEmpty ? .failure(.notFound) : .success(addresses)
  }

  /// A static executable has no name service modules to load, whatever the code says.
  static func resolveError(
    _ code: Int32, _ errno: Int32, isStatic: Bool = clupine_is_static_executable() != 0
  ) -> ResolveError {
    // EAI_NODATA (-5) is a GNU extension that Swift does not see.
    switch code {
    case EAI_NONAME, -5: isStatic ? .unavailable : .notFound
    case EAI_AGAIN: isStatic ? .unavailable : .temporary
    case EAI_FAIL where isStatic, EAI_SYSTEM where isStatic: .unavailable
    case EAI_SYSTEM: .system(code: code, errno: errno)
    default: .system(code: code, errno: 0)
    }
  }

  static func resolverMessage(_ code: Int32) -> String {
    unsafe gai_strerror(code).map { unsafe String(cString: $0) } ?? "getaddrinfo: \(code)"
  }
}
