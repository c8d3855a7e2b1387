internal import CLupineLinux

/// The process's environment, a variable at a time: there may be thousands. Any thread; the C library keeps nobody from changing it meanwhile, as everywhere.
package enum Environment {
  /// Nil: there is none of that name. What is no UTF-8 is repaired.
  package static func variable(_ name: String) -> String? {
    unsafe getenv(name).map { unsafe String(cString: $0) }
  }
}
