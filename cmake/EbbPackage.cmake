# Debian packages, by `cpack -G DEB` in a build whose CMAKE_INSTALL_PREFIX is /usr (tools/release): ebbtide has the
# program, libebbtide-dev what C++ programs are compiled with. What they need of the system, dpkg-shlibdeps finds out.
set(CPACK_PACKAGE_NAME ebbtide)
set(CPACK_PACKAGE_CONTACT "The Ebbtide developers")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME ebbtide)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "libssl3 | libssl3t64")  # opened at run time, for --encrypt
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "The command ebb: it runs programs within a memory budget with flash behind it,
plans and simulates them. Programs with PyTorch need the ebb that pip installs.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libebbtide-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers and static libraries for programs in C++: find_package(Ebbtide), or
pkg-config ebbtide.")
set(ebb_dev_needs "ebbtide (= ${PROJECT_VERSION})" liburing-dev zlib1g-dev libzstd-dev)
if(TARGET ebb_array)
  list(APPEND ebb_dev_needs libhwy-dev)
  if(EBB_ONEDNN)
    list(APPEND ebb_dev_needs libdnnl-dev)
  endif()
endif()
list(JOIN ebb_dev_needs ", " CPACK_DEBIAN_DEV_PACKAGE_DEPENDS)
include(CPack)
